/*
 * Discovers the machine that the process runs on, as a graph of one host: hwloc reports processors
 * and PCI devices (topo/hwloc_graph.h), or without it sysfs (topo/sysfs_graph.h); sysfs the speed
 * of NICs (topo/sysfs.h), NVML the NVLinks (topo/nvml.h). All cpus of the machine count, also those
 * that the process may not use.
 *
 * What NICs are connected to cannot be seen from a host: one network switch for all that speak
 * Infiniband and one for all that speak Ethernet stand for it, called "switch-infiniband" and
 * "switch-ethernet". NICs without an active link have no link. All NVSwitches of the host are one
 * node, "host0/nvswitch".
 */
#ifndef TOPO_DISCOVER_H
#define TOPO_DISCOVER_H

#include <stdint.h>

#include "topo/graph.h"

/* The caller frees *graph. COLL_ERROR_SYSTEM: hwloc cannot read the topology. */
coll_status_t topo_discover(topo_graph_t **graph);

/* Processors and PCI devices alone. *addresses: the PCI function of each node. The caller frees
 * both. */
coll_status_t topo_discover_host(topo_graph_t **graph, int64_t **addresses);
const char *topo_discover_source(void); /* "hwloc" or "sysfs" */

/* Adds what sysfs at `root` and the library `nvml` report to a graph that was made by
 * topo_discover_host with these addresses. COLL_ERROR_MEMORY: the graph is incomplete. */
coll_status_t topo_discover_devices(topo_graph_t *graph, const int64_t addresses[],
                                    const char *root, const char *nvml);

#endif
