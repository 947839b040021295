/*
 * What this machine is, as far as the calling thread may use it: cores, memory nodes and caches,
 * found by hwloc and already narrowed to the affinity mask and cgroup. Also shares the cores out
 * among the ranks of one machine and binds a rank to its share.
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
  int numa_nodes;  /* memory nodes beside those cores; at least 1 */
  size_t l3_bytes; /* of one last cache; 0 where there is none */
} topo_facts_t;

/* A run of cores in hwloc's order, which keeps the cores of a cache, a node and a package together.
 * count 0: no share, the rank is left unbound. */
typedef struct topo_share {
  int first, count;
} topo_share_t;

/* Discovers the machine. The caller owns *machine. */
coll_status_t topo_machine_create(topo_machine_t **machine);
void topo_machine_destroy(topo_machine_t *machine);

topo_facts_t topo_machine_facts(const topo_machine_t *machine);

/* Rank `local_rank` of `local_size`'s part of `cores` cores: contiguous blocks that cover all cores
 * and differ by at most one in size. Ranks that outnumber cores share one each in blocks of equal
 * size; where that does not come out even they get nothing, since to share a core while another
 * idles is worse than to be pinned nowhere. */
topo_share_t topo_share_of(int cores, int local_rank, int local_size);

/* Binds the calling thread (and what it starts from now on) to the hardware threads of those cores.
 * An empty share changes nothing. COLL_ERROR_SYSTEM when the kernel refuses. */
coll_status_t topo_machine_bind(const topo_machine_t *machine, topo_share_t share);

#endif
