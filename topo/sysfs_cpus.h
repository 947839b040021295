/*
 * Hardware threads as Linux shows them in sysfs (Documentation/ABI: sysfs-devices-system-cpu,
 * sysfs-devices-node), for builds without hwloc.
 */
#ifndef TOPO_SYSFS_CPUS_H
#define TOPO_SYSFS_CPUS_H

#include <stddef.h>

#include "base/status.h"
#include "topo/cpus.h"

#define TOPO_SYSFS_CPU_NONE (-1)

/* Where a hardware thread is. Package, cache and core are called by the lowest hardware thread that
 * belongs to them, TOPO_SYSFS_CPU_NONE: not reported. */
typedef struct topo_sysfs_cpu {
  int number;
  int package;
  int numa;  /* the number of its NUMA node */
  int cache; /* its L3 cache */
  int core;
} topo_sysfs_cpu_t;

/* Reads where each of the hardware threads `all` is. *cpus: in an order that groups those of a
 * package, NUMA node, cache and core; the caller frees it. COLL_ERROR_MEMORY. */
coll_status_t topo_sysfs_cpus(const char *root, const topo_cpus_t *all, topo_sysfs_cpu_t **cpus,
                              size_t *count);

/* Those that are online; the calling thread's own where sysfs does not tell. */
topo_cpus_t topo_sysfs_online(const char *root);

/* NUMA nodes with hardware threads: the bit of a node is its number. One, if sysfs has none. */
topo_cpus_t topo_sysfs_numa_nodes(const char *root);
topo_cpus_t topo_sysfs_cpus_of_numa(const char *root, int node, const topo_cpus_t *all);

/* The size of the L3 cache of a hardware thread; 0: it has none. */
size_t topo_sysfs_l3_bytes(const char *root, int cpu);

#endif
