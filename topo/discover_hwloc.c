/* Processors and PCI devices as hwloc reports them, or sysfs where hwloc cannot be used. */
#include <hwloc.h>

#include "topo/cpus.h"
#include "topo/discover.h"
#include "topo/hwloc_graph.h"
#include "topo/sysfs.h"
#include "topo/sysfs_graph.h"

const char *topo_discover_source(void) {
  return topo_cpus_are_known() ? "hwloc" : "sysfs";
}

static coll_status_t load(hwloc_topology_t topology) {
  topo_hwloc_keep_io(topology);
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(topology) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "hwloc cannot read this machine's topology");
}

coll_status_t topo_discover_host(topo_graph_t **graph, int64_t **addresses) {
  hwloc_topology_t topology;
  *graph = NULL;
  if (!topo_cpus_are_known()) return topo_graph_from_sysfs(TOPO_SYSFS, graph, addresses);
  if (hwloc_topology_init(&topology) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "hwloc cannot start");
  }
  coll_status_t status = load(topology);
  if (status == COLL_OK) status = topo_graph_from_hwloc(topology, graph, addresses);
  hwloc_topology_destroy(topology);
  return status;
}
