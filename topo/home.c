/* Compares the cpus of a rank with the lists of cpus in sysfs. */
#include "topo/home.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define LIST_BYTES 4096
#define NODES_MAX 1024

/* ---- lists of cpus ------------------------------------------------------------------------- */

/* Parses "0-3,8,10-11"; the kernel's order is ascending. False if the file is missing or wrong. */
static bool read_list(const char *path, topo_cpus_t *cpus) {
  char text[LIST_BYTES];
  FILE *file = fopen(path, "re");
  memset(cpus, 0, sizeof *cpus);
  if (file == NULL) return false;
  bool has_text = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  for (char *at = text; has_text && *at != '\n' && *at != '\0';) {
    char *end;
    unsigned long first = strtoul(at, &end, 10), last = first;
    if (end == at) return false;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    for (unsigned long cpu = first; cpu <= last && cpu < TOPO_CPUS_MAX; cpu++) {
      cpus->words[cpu / 64] |= UINT64_C(1) << cpu % 64;
    }
    if (*end != ',' && *end != '\n' && *end != '\0') return false;
    at = *end == ',' ? end + 1 : end;
  }
  return has_text;
}

static bool contains(const topo_cpus_t *all, const topo_cpus_t *some) {
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) {
    if ((some->words[i] & ~all->words[i]) != 0) return false;
  }
  return true;
}

static bool has(const topo_cpus_t *cpus, int cpu) {
  return (cpus->words[cpu / 64] >> cpu % 64 & 1) != 0;
}

static int first_of(const topo_cpus_t *cpus) {
  int cpu = 0;
  while (cpu < TOPO_CPUS_MAX && !has(cpus, cpu)) cpu++;
  return cpu;
}

/* ---- homes --------------------------------------------------------------------------------- */

static int16_t numa_of(const char *root, const topo_cpus_t *cpus) {
  char path[PATH_MAX];
  topo_cpus_t nodes, node_cpus;
  snprintf(path, sizeof path, "%s/devices/system/node/online", root);
  if (!read_list(path, &nodes)) return TOPO_HOME_NONE;
  for (int node = 0; node < NODES_MAX; node++) {
    if (!has(&nodes, node)) continue;
    snprintf(path, sizeof path, "%s/devices/system/node/node%d/cpulist", root, node);
    if (read_list(path, &node_cpus) && contains(&node_cpus, cpus)) return (int16_t)node;
  }
  return TOPO_HOME_NONE;
}

static int16_t package_of(const char *root, const topo_cpus_t *cpus) {
  char path[PATH_MAX], text[16] = "";
  topo_cpus_t siblings;
  int cpu = first_of(cpus);
  snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/core_siblings_list", root, cpu);
  if (!read_list(path, &siblings) || !contains(&siblings, cpus)) return TOPO_HOME_NONE;
  snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/physical_package_id", root,
           cpu);
  FILE *file = fopen(path, "re");
  if (file == NULL) return TOPO_HOME_NONE;
  bool has_text = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  long package = has_text ? strtol(text, NULL, 10) : TOPO_HOME_NONE;
  return package >= 0 && package <= INT16_MAX ? (int16_t)package : TOPO_HOME_NONE;
}

topo_home_t topo_home_of(const char *root, const topo_cpus_t *cpus) {
  if (topo_cpus_count(cpus) == 0) return (topo_home_t){TOPO_HOME_NONE, TOPO_HOME_NONE};
  return (topo_home_t){.package = package_of(root, cpus), .numa = numa_of(root, cpus)};
}

/* ---- the layout ---------------------------------------------------------------------------- */

static bool share_home(topo_home_t a, topo_home_t b, topo_kind_t kind) {
  return a.package == b.package && (kind == TOPO_PACKAGE || a.numa == b.numa);
}

/* group_of: the lowest rank with the same home. Returns the number of groups; 0 if a group has one
 * rank only. */
static int32_t group(const topo_home_t homes[], int32_t size, topo_kind_t kind,
                     int32_t group_of[]) {
  int32_t groups = 0;
  for (int32_t rank = 0; rank < size; rank++) {
    int32_t members = 0;
    for (int32_t other = size; other-- > 0;) {
      if (!share_home(homes[rank], homes[other], kind)) continue;
      group_of[rank] = other;
      members++;
    }
    if (members == 1) return 0;
    groups += group_of[rank] == rank;
  }
  return groups;
}

static coll_status_t add_levels(const topo_home_t homes[], int32_t size, int32_t group_of[],
                                topo_layout_t **layout) {
  static const topo_kind_t kinds[] = {TOPO_PACKAGE, TOPO_NUMA};
  int32_t above = 1;
  for (int i = 0; i < 2; i++) {
    int32_t groups = group(homes, size, kinds[i], group_of);
    if (groups <= above) continue;
    if (*layout == NULL) COLL_TRY(topo_layout_create(size, layout));
    COLL_TRY(topo_layout_add_level(*layout, kinds[i], group_of));
    above = groups;
  }
  return COLL_OK;
}

coll_status_t topo_home_layout(const topo_home_t homes[], int32_t size, topo_layout_t **layout) {
  int32_t *group_of;
  bool differ = false;
  *layout = NULL;
  for (int32_t rank = 0; rank < size; rank++) {
    if (homes[rank].package == TOPO_HOME_NONE || homes[rank].numa == TOPO_HOME_NONE) return COLL_OK;
    differ = differ || !share_home(homes[rank], homes[0], TOPO_NUMA);
  }
  if (!differ) return COLL_OK;
  COLL_TRY(base_alloc((size_t)size, sizeof *group_of, "a layout", (void **)&group_of));
  coll_status_t status = add_levels(homes, size, group_of, layout);
  free(group_of);
  if (status == COLL_OK) return COLL_OK;
  topo_layout_free(*layout);
  *layout = NULL;
  return status;
}
