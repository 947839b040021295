/* Lists of hardware threads: those beside which a hardware thread has its package, cache, core. */
#include "topo/sysfs_cpus.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define CACHES_MAX 10 /* of a hardware thread */
#define LINE_BYTES 64

static bool read_list(topo_cpus_t *cpus, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool read_list(topo_cpus_t *cpus, const char *format, ...) {
  char path[PATH_MAX];
  va_list list;
  va_start(list, format);
  vsnprintf(path, sizeof path, format, list);
  va_end(list);
  return topo_cpus_read(path, cpus) && topo_cpus_count(cpus) > 0;
}

static bool read_line(char line[LINE_BYTES], const char *root, int cpu, int cache,
                      const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/cache/index%d/%s", root, cpu, cache,
           name);
  FILE *file = fopen(path, "re");
  line[0] = '\0';
  if (file == NULL) return false;
  bool has_text = fgets(line, LINE_BYTES, file) != NULL;
  fclose(file);
  line[strcspn(line, "\n")] = '\0';
  return has_text;
}

/* The number of its L3 among the caches of a hardware thread; -1: it has none. */
static int find_l3(const char *root, int cpu) {
  char line[LINE_BYTES];
  for (int cache = 0; cache < CACHES_MAX; cache++) {
    if (read_line(line, root, cpu, cache, "level") && strcmp(line, "3") == 0) return cache;
  }
  return -1;
}

/* ---- one hardware thread ------------------------------------------------------------------- */

static int first_sibling(const char *root, int cpu, const char *name) {
  topo_cpus_t siblings;
  bool known = read_list(&siblings, "%s/devices/system/cpu/cpu%d/topology/%s", root, cpu, name);
  return known ? topo_cpus_first(&siblings) : TOPO_SYSFS_CPU_NONE;
}

static int first_of_cache(const char *root, int cpu) {
  topo_cpus_t sharers;
  int cache = find_l3(root, cpu);
  bool known =
      cache >= 0 && read_list(&sharers, "%s/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list",
                              root, cpu, cache);
  return known ? topo_cpus_first(&sharers) : TOPO_SYSFS_CPU_NONE;
}

static topo_sysfs_cpu_t describe(const char *root, int cpu) {
  return (topo_sysfs_cpu_t){.number = cpu,
                            .package = first_sibling(root, cpu, "core_siblings_list"),
                            .numa = TOPO_SYSFS_CPU_NONE,
                            .cache = first_of_cache(root, cpu),
                            .core = first_sibling(root, cpu, "thread_siblings_list")};
}

size_t topo_sysfs_l3_bytes(const char *root, int cpu) {
  char line[LINE_BYTES];
  uint64_t bytes = 0;
  int cache = find_l3(root, cpu);
  if (cache < 0 || !read_line(line, root, cpu, cache, "size")) return 0;
  return base_text_bytes(line, &bytes) ? (size_t)bytes : 0;
}

/* ---- all of them --------------------------------------------------------------------------- */

topo_cpus_t topo_sysfs_online(const char *root) {
  topo_cpus_t online;
  return read_list(&online, "%s/devices/system/cpu/online", root) ? online : topo_cpus_own();
}

topo_cpus_t topo_sysfs_numa_nodes(const char *root) {
  topo_cpus_t nodes, found = {0};
  const topo_cpus_t online = topo_sysfs_online(root);
  if (!read_list(&nodes, "%s/devices/system/node/online", root)) {
    topo_cpus_set(&found, 0);
    return found;
  }
  for (int node = 0; node < TOPO_CPUS_MAX; node++) {
    if (!topo_cpus_have(&nodes, node)) continue;
    topo_cpus_t cpus = topo_sysfs_cpus_of_numa(root, node, &online);
    if (topo_cpus_count(&cpus) > 0) topo_cpus_set(&found, node);
  }
  return found;
}

topo_cpus_t topo_sysfs_cpus_of_numa(const char *root, int node, const topo_cpus_t *all) {
  topo_cpus_t nodes, cpus;
  if (!read_list(&nodes, "%s/devices/system/node/online", root)) return *all;
  if (!read_list(&cpus, "%s/devices/system/node/node%d/cpulist", root, node)) return cpus;
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) cpus.words[i] &= all->words[i];
  return cpus;
}

static int order(const void *left, const void *right) {
  const topo_sysfs_cpu_t *a = left, *b = right;
  const int before[] = {a->package, a->numa, a->cache, a->core, a->number};
  const int after[] = {b->package, b->numa, b->cache, b->core, b->number};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
    if (before[i] != after[i]) return before[i] < after[i] ? -1 : 1;
  }
  return 0;
}

static void set_numa(const char *root, const topo_cpus_t *all, topo_sysfs_cpu_t *cpus,
                     size_t count) {
  const topo_cpus_t nodes = topo_sysfs_numa_nodes(root);
  for (int node = 0; node < TOPO_CPUS_MAX; node++) {
    if (!topo_cpus_have(&nodes, node)) continue;
    topo_cpus_t near = topo_sysfs_cpus_of_numa(root, node, all);
    for (size_t i = 0; i < count; i++) {
      if (cpus[i].numa < 0 && topo_cpus_have(&near, cpus[i].number)) cpus[i].numa = node;
    }
  }
}

coll_status_t topo_sysfs_cpus(const char *root, const topo_cpus_t *all, topo_sysfs_cpu_t **cpus,
                              size_t *count) {
  size_t found = 0;
  *count = (size_t)topo_cpus_count(all);
  COLL_TRY(base_alloc(*count + 1, sizeof **cpus, "hardware threads", (void **)cpus));
  for (int cpu = 0; cpu < TOPO_CPUS_MAX; cpu++) {
    if (topo_cpus_have(all, cpu)) (*cpus)[found++] = describe(root, cpu);
  }
  set_numa(root, all, *cpus, *count);
  qsort(*cpus, *count, sizeof **cpus, order);
  return COLL_OK;
}
