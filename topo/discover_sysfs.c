/* Processors and PCI devices without hwloc. */
#include "topo/discover.h"
#include "topo/sysfs.h"
#include "topo/sysfs_graph.h"

const char *topo_discover_source(void) {
  return "sysfs";
}

coll_status_t topo_discover_host(topo_graph_t **graph, int64_t **addresses) {
  return topo_graph_from_sysfs(TOPO_SYSFS, graph, addresses);
}
