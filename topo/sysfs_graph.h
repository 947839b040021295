/*
 * A graph of one host from sysfs alone, as topo/hwloc_graph.h makes it of hwloc's topology: for
 * builds without hwloc. Names, parents, links and their speeds are the same, with these exceptions:
 *
 * - NUMA nodes have the kernel's numbers, where hwloc counts them.
 * - A GPU is a PCI function of the display or accelerator class, and has no model before NVML gives
 *   one.
 * - Hardware threads from number TOPO_CPUS_MAX on are left out.
 */
#ifndef TOPO_SYSFS_GRAPH_H
#define TOPO_SYSFS_GRAPH_H

#include "topo/cpus.h"
#include "topo/host_build.h"
#include "topo/pci.h"

/* root: where sysfs is mounted. The caller frees *graph and *addresses, the PCI function of each
 * node, TOPO_PCI_NONE for others. COLL_ERROR_MEMORY; COLL_ERROR_INVALID: more nodes than a graph
 * can have. */
coll_status_t topo_graph_from_sysfs(const char *root, topo_graph_t **graph, int64_t **addresses);

/* ---- between sysfs_graph.c and sysfs_pci.c ------------------------------------------------- */

/* A package or NUMA node. */
typedef struct topo_sysfs_part {
  topo_cpus_t cpus;
  int32_t node, cores;
} topo_sysfs_part_t;

typedef struct topo_sysfs_walk {
  const char *root;
  topo_builder_t b;
  int32_t host;
  topo_cpus_t online;
  topo_sysfs_part_t *parts;
  size_t part_count, part_capacity;
  topo_host_addresses_t addresses;
} topo_sysfs_walk_t;

/* The smallest part with all of the cpus, of equal ones the innermost; NULL: none. */
topo_sysfs_part_t *topo_sysfs_part_of(topo_sysfs_walk_t *walk, const topo_cpus_t *cpus);

/* Adds PCI root complexes, switches, GPUs and NICs. */
void topo_sysfs_add_pci(topo_sysfs_walk_t *walk);

#endif
