/*
 * The machine as far as the calling thread may use it: cores, NUMA nodes and caches, found by
 * hwloc, or without it in sysfs, and restricted to the affinity mask and cgroup. Also divides the
 * cores among the ranks of one machine and binds a rank to its cores.
 */
#ifndef TOPO_MACHINE_H
#define TOPO_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct topo_machine topo_machine_t;

typedef struct topo_facts {
  int cores;       /* physical cores with at least one usable hardware thread; at least 1 */
  int threads;     /* usable hardware threads; at least 1 */
  int numa_nodes;  /* NUMA nodes of those cores; at least 1 */
  size_t l3_bytes; /* size of one L3 cache; 0 if there is none */
} topo_facts_t;

/* A contiguous range of cores, in an order that groups the cores of a cache, a NUMA node and a
 * package. count 0: no cores assigned, the rank stays unbound. */
typedef struct topo_share {
  int first, count;
} topo_share_t;

/* Discovers the machine's topology. The caller owns *machine. COLL_ERROR_SYSTEM or
 * COLL_ERROR_MEMORY. */
coll_status_t topo_machine_create(topo_machine_t **machine);
void topo_machine_destroy(topo_machine_t *machine);

topo_facts_t topo_machine_facts(const topo_machine_t *machine);

/* Cores of rank `local_rank` of `local_size` ranks: contiguous blocks that cover all `cores` cores
 * and differ by at most one in size. If ranks outnumber cores, each core is assigned to the same
 * number of ranks; if that is not possible no rank is bound, because sharing a core while another
 * one is idle is worse than not being bound. */
topo_share_t topo_share_of(int cores, int local_rank, int local_size);

/* Binds the calling thread, and threads that it creates afterwards, to the hardware threads of
 * those cores. Count 0 changes nothing. COLL_ERROR_SYSTEM if the kernel refuses. */
coll_status_t topo_machine_bind(const topo_machine_t *machine, topo_share_t share);

#endif
