/*
 * Rings that follow the topology: directed Hamiltonian cycles through all ranks which together
 * load no link more than needed. Where the graph has several disjoint paths (a link between each
 * two GPUs, a rail for each GPU of a host, two directions and two dimensions of a torus), one ring
 * uses one of them, so R rings at once have up to R times its bandwidth: what NCCL calls channels
 * over different rings (NVIDIA, NCCL, "Rings"), and what Hamiltonian decompositions of complete
 * graphs (Tillson, A Hamiltonian decomposition of K*_2m, 2m >= 8, 1980) and of products of cycles
 * (Alspach, Bermond & Sotteau, Decomposition into cycles I: Hamilton decompositions, 1990) give.
 *
 * The rings are found by a depth-first search over all of them together. A ring visits one host
 * after another; it leaves a host at the rank of the index at which it enters the next one, which
 * on a rail fabric is one rail. Inside a host it first tries the zigzag order i, i + 1, i - 1,
 * i + 2, ..., whose m rotations are disjoint Hamiltonian paths of m ranks (Williams, Experimental
 * designs balanced for the estimation of residual effects of treatments, 1949). Integers and a
 * fixed order of the search give all ranks the same rings.
 *
 * Bounds: at most TOPO_RINGS_MAX rings, and TOPO_RINGS_EDGES edges that are tried for each of two
 * limits on the load of a link; the most rings found by then count. No search among more than
 * TOPO_RINGS_RANKS_MAX ranks.
 */
#ifndef TOPO_RINGS_H
#define TOPO_RINGS_H

#include "topo/fabric.h"

#define TOPO_RINGS_MAX 16
#define TOPO_RINGS_RANKS_MAX 128
#define TOPO_RINGS_EDGES (1 << 13)

typedef struct topo_rings {
  int32_t size;   /* ranks */
  int32_t count;  /* rings, 1..TOPO_RINGS_MAX */
  int32_t *order; /* [count][size]: the ranks in the order of each ring; the last one sends to the
                     first */
} topo_rings_t;

/* The ranks of a ring in order. */
static inline const int32_t *topo_rings_order(const topo_rings_t *rings, int32_t ring) {
  return &rings->order[ring * rings->size];
}

/* *rings: those of most bandwidth, which is the number of rings over the time that the most loaded
 * wire needs for a KiB of each, and of those the fewest; NULL if the search finds none better than
 * one ring in the order of the ranks, or does not take place. The fabric connects all of its `size`
 * ranks. Owned by the caller until topo_rings_free. COLL_ERROR_MEMORY. */
coll_status_t topo_rings_find(topo_fabric_t *fabric, int32_t size, topo_rings_t **rings);

/* A copy, owned by the caller; NULL of NULL. */
coll_status_t topo_rings_copy(const topo_rings_t *rings, topo_rings_t **copy);
void topo_rings_free(topo_rings_t *rings);

/* Differs, but for chance, if the rings do. 0 for NULL only. */
uint64_t topo_rings_digest(const topo_rings_t *rings);

/* *load_ps: how long the most loaded wire needs for a KiB that goes once around each ring. */
coll_status_t topo_rings_load(const topo_rings_t *rings, topo_fabric_t *fabric, uint64_t *load_ps);

#endif
