/* Compares the cpus of a rank with the lists of cpus in sysfs. */
#include "topo/home.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define NODES_MAX 1024

/* ---- homes --------------------------------------------------------------------------------- */

static int16_t numa_of(const char *root, const topo_cpus_t *cpus) {
  char path[PATH_MAX];
  topo_cpus_t nodes, node_cpus;
  snprintf(path, sizeof path, "%s/devices/system/node/online", root);
  if (!topo_cpus_read(path, &nodes)) return TOPO_HOME_NONE;
  for (int node = 0; node < NODES_MAX; node++) {
    if (!topo_cpus_have(&nodes, node)) continue;
    snprintf(path, sizeof path, "%s/devices/system/node/node%d/cpulist", root, node);
    if (topo_cpus_read(path, &node_cpus) && topo_cpus_contain(&node_cpus, cpus))
      return (int16_t)node;
  }
  return TOPO_HOME_NONE;
}

static int16_t package_of(const char *root, const topo_cpus_t *cpus) {
  char path[PATH_MAX], text[16] = "";
  topo_cpus_t siblings;
  int cpu = topo_cpus_first(cpus);
  snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/core_siblings_list", root, cpu);
  if (!topo_cpus_read(path, &siblings) || !topo_cpus_contain(&siblings, cpus))
    return TOPO_HOME_NONE;
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
