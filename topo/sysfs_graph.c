/* Packages, NUMA nodes and cores, by which hardware threads they have. */
#include "topo/sysfs_graph.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/processor.h"
#include "topo/sysfs.h"
#include "topo/sysfs_cpus.h"

typedef topo_sysfs_walk_t walk_t;
typedef topo_sysfs_part_t part_t;

/* ---- parts --------------------------------------------------------------------------------- */

part_t *topo_sysfs_part_of(walk_t *w, const topo_cpus_t *cpus) {
  part_t *best = NULL;
  int least = INT_MAX;
  for (size_t i = 0; i < w->part_count; i++) {
    int weight = topo_cpus_count(&w->parts[i].cpus);
    if (weight > least || !topo_cpus_contain(&w->parts[i].cpus, cpus)) continue;
    least = weight;
    best = &w->parts[i];
  }
  return best;
}

static void add_part(walk_t *w, const topo_cpus_t *cpus, int32_t node) {
  if (w->b.status == COLL_OK) {
    w->b.status = base_grow((void **)&w->parts, &w->part_capacity, w->part_count + 1,
                            sizeof *w->parts, "parts of a host");
  }
  if (w->b.status != COLL_OK) return;
  w->parts[w->part_count++] = (part_t){.cpus = *cpus, .node = node};
}

/* The hardware threads from cpus[first] on that are of one package, or of one core. */
static topo_cpus_t take_equal(const topo_sysfs_cpu_t cpus[], size_t count, size_t first,
                              bool cores) {
  topo_cpus_t taken = {0};
  for (size_t i = first; i < count; i++) {
    const topo_sysfs_cpu_t *a = &cpus[first], *b = &cpus[i];
    bool equal =
        cores ? a->core == b->core && a->core != TOPO_SYSFS_CPU_NONE : a->package == b->package;
    if (equal || i == first) topo_cpus_set(&taken, b->number);
  }
  return taken;
}

static void add_packages(walk_t *w, const topo_sysfs_cpu_t cpus[], size_t count) {
  int32_t packages = 0;
  char model[TOPO_NAME_BYTES];
  base_processor_name(model, sizeof model);
  for (size_t i = 0; i < count; i++) {
    if (cpus[i].package == TOPO_SYSFS_CPU_NONE) continue;
    if (i > 0 && cpus[i].package == cpus[i - 1].package) continue;
    topo_cpus_t all = take_equal(cpus, count, i, false);
    int32_t node = topo_build_node(&w->b, TOPO_PACKAGE, w->host, "", "host0/cpu%d", packages++);
    topo_host_set_model(&w->b, node, model);
    add_part(w, &all, node);
  }
}

/* Memory of one kind beside another of the same cores is no place for ranks. */
static bool is_home_of_cores(const walk_t *w, const topo_cpus_t *cpus, size_t packages) {
  for (size_t i = packages; i < w->part_count; i++) {
    if (memcmp(&w->parts[i].cpus, cpus, sizeof *cpus) == 0) return false;
  }
  return true;
}

static void add_numa_nodes(walk_t *w) {
  size_t packages = w->part_count;
  const topo_cpus_t nodes = topo_sysfs_numa_nodes(w->root);
  for (int number = 0; number < TOPO_CPUS_MAX; number++) {
    if (!topo_cpus_have(&nodes, number)) continue;
    topo_cpus_t cpus = topo_sysfs_cpus_of_numa(w->root, number, &w->online);
    if (!is_home_of_cores(w, &cpus, packages)) continue;
    part_t *around = topo_sysfs_part_of(w, &cpus);
    int32_t node =
        topo_host_add_numa(&w->b, w->host, around != NULL ? around->node : w->host, number);
    add_part(w, &cpus, node);
  }
}

/* ---- cores --------------------------------------------------------------------------------- */

/* The online hardware threads that share an L3 with one. */
static topo_cpus_t cache_of(const topo_sysfs_cpu_t cpus[], size_t count, int cache) {
  topo_cpus_t sharers = {0};
  for (size_t i = 0; i < count && cache != TOPO_SYSFS_CPU_NONE; i++) {
    if (cpus[i].cache == cache) topo_cpus_set(&sharers, cpus[i].number);
  }
  return sharers;
}

static void add_cores(walk_t *w, const topo_sysfs_cpu_t cpus[], size_t count) {
  int32_t loose = 0, before = 0; /* before: cores of the same cache */
  for (size_t i = 0; i < count && w->b.status == COLL_OK; i++) {
    const topo_sysfs_cpu_t *cpu = &cpus[i], *last = i > 0 ? cpu - 1 : NULL;
    if (last != NULL && last->core == cpu->core && cpu->core != TOPO_SYSFS_CPU_NONE) continue;
    const topo_cpus_t core = take_equal(cpus, count, i, true);
    const topo_cpus_t cache = cache_of(cpus, count, cpu->cache);
    bool shares = last != NULL && last->cache == cpu->cache && cpu->cache != TOPO_SYSFS_CPU_NONE;
    part_t *part = topo_sysfs_part_of(w, &core);
    int32_t above = part != NULL ? part->node : w->host;
    int32_t number = part != NULL ? part->cores++ : loose++;
    int32_t node = topo_build_node(&w->b, TOPO_CORE, above, "", "%.40s/core%d",
                                   w->b.graph->nodes[above].name, number);
    before = shares ? before + 1 : 0;
    bool serves_part = part != NULL && topo_cpus_contain(&cache, &part->cpus);
    topo_host_link_core(&w->b, above, node, serves_part, before);
  }
}

static void add_processors(walk_t *w) {
  topo_sysfs_cpu_t *cpus = NULL;
  size_t count;
  if (w->b.status == COLL_OK) w->b.status = topo_sysfs_cpus(w->root, &w->online, &cpus, &count);
  if (w->b.status != COLL_OK) return;
  add_packages(w, cpus, count);
  add_numa_nodes(w);
  topo_host_link_tops(&w->b, w->host);
  add_cores(w, cpus, count);
  free(cpus);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void add_host(walk_t *w) {
  char model[TOPO_SYSFS_LINE_BYTES];
  w->b.status = topo_graph_create("", &w->b.graph);
  w->host = topo_build_node(&w->b, TOPO_HOST, TOPO_NONE, "", "host0");
  topo_sysfs_line(w->root, "class/dmi/id", "product_name", model);
  topo_host_set_model(&w->b, w->host, model);
}

coll_status_t topo_graph_from_sysfs(const char *root, topo_graph_t **graph, int64_t **addresses) {
  walk_t w = {.root = root, .online = topo_sysfs_online(root)};
  add_host(&w);
  add_processors(&w);
  topo_sysfs_add_pci(&w);
  if (w.b.status == COLL_OK) {
    topo_host_set_address(&w.b, &w.addresses, (int32_t)w.b.graph->node_count - 1, TOPO_PCI_NONE);
  }
  free(w.parts);
  if (w.b.status != COLL_OK) {
    free(w.addresses.of);
    topo_graph_free(w.b.graph);
    w.addresses.of = NULL;
    w.b.graph = NULL;
  }
  *graph = w.b.graph;
  *addresses = w.addresses.of;
  return w.b.status;
}
