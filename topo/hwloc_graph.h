/*
 * A graph of one host from an hwloc topology (hwloc 2): packages, NUMA nodes that have cores,
 * cores, PCI root complexes and switches, GPUs and NICs. Nodes are called "host0", "host0/cpu0",
 * "host0/numa0", "host0/gpu0", as those of topo/kinds.h.
 *
 * - A core is linked to the smallest package or NUMA node that contains it, by a link of class
 * cache if all cores there share one L3 cache, else of class memory; cores that share an L3 which
 *   others there do not share are linked pairwise.
 * - A PCI bridge is a node if it is a root complex or two devices or more are reached through it.
 *   The functions of one device count as one. A link is as fast as the slowest link that hwloc
 *   reports on its way; a root complex is linked to the processors as fast as memory is.
 * - A GPU is a PCI function of the display or accelerator class, or one with a GPU or coprocessor
 * of the operating system. Display controllers of management processors and virtual machines are
 *   left out.
 * - A NIC is a PCI function with network or OpenFabrics devices; its model is their name, that of
 *   OpenFabrics first.
 *
 * hwloc reports neither latencies nor bandwidths of memory and caches. The graph has the typical
 * values of topo/kinds_build.h, which are assumed.
 */
#ifndef TOPO_HWLOC_GRAPH_H
#define TOPO_HWLOC_GRAPH_H

#include <stdint.h>
#include <stdio.h>

#include "topo/graph.h"
#include "topo/pci.h"

struct hwloc_topology;

/* *graph: of a loaded topology, whose I/O objects were kept. *addresses, if not NULL: the PCI
 * function of each node, TOPO_PCI_NONE for others. The caller frees both. The graph passes
 * topo_graph_check. COLL_ERROR_MEMORY; COLL_ERROR_INVALID: more nodes than a graph can have. */
coll_status_t topo_graph_from_hwloc(struct hwloc_topology *topology, topo_graph_t **graph,
                                    int64_t **addresses);

/* Sets what topo_graph_from_hwloc needs, before the topology is loaded. */
void topo_hwloc_keep_io(struct hwloc_topology *topology);

/* *graph: of a text in hwloc's XML format; it need not end in a null character. hwloc does not
 * check all that it reads, and crashes at some files, so a child process reads it. Bandwidths that
 * the file has beside those of PCIe are left out; for each a line with file and line is written to
 * `warnings` (NULL: nowhere). The caller frees *graph. COLL_ERROR_INVALID: hwloc cannot read it;
 * the message has the file's name, and its version if that is newer than hwloc's.
 * COLL_ERROR_SYSTEM: no process can be made. COLL_ERROR_UNSUPPORTED: built without hwloc. */
coll_status_t topo_graph_from_hwloc_xml(const char *text, size_t bytes, const char *file_name,
                                        FILE *warnings, topo_graph_t **graph);

#endif
