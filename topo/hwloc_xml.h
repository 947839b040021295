/*
 * Graphs as hwloc's XML (hwloc 2.0 up). topo/hwloc_graph.h reads it.
 *
 * hwloc needs cores, each with a PU, and NUMA nodes: a package without one gets one. A NUMA node
 * beside others in its package, or in no package, is in a Group of its cores. Each PCI switch, GPU
 * or NIC that no PCI switch contains is below a host bridge, unless it is a root complex itself: a
 * PCI switch that is linked faster than PCIe can be. GPUs are PCI devices of class 0302 or 1200
 * whose model is the info PCIDevice, NICs have an operating system's device. Numbers of cores and
 * PCI buses are made up.
 */
#ifndef TOPO_HWLOC_XML_H
#define TOPO_HWLOC_XML_H

#include <stdio.h>

#include "topo/graph.h"

/*
 * Writes one host; `host` is its name, or NULL if the graph has one only. What the format cannot
 * express is left out, and a sentence about it written to `warnings`, a line each: NVLinks, the
 * network, bandwidths of memory, packages without cores and packages in NUMA nodes.
 *
 * COLL_ERROR_INVALID: there are several hosts and `host` is NULL, or none of that name; the host
 * has no cores; nodes are nested too deep. COLL_ERROR_SYSTEM: the stream cannot be written.
 */
coll_status_t topo_graph_to_hwloc_xml(const topo_graph_t *graph, const char *host, FILE *out,
                                      FILE *warnings);

#endif
