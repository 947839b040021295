/*
 * The ways in which a core can carry a move out: as the C library does, by string instructions,
 * past the caches, by vectors. Which is fastest depends on the size and on where the buffers lie,
 * so all are tried.
 */
#ifndef BENCH_MOVERS_H
#define BENCH_MOVERS_H

#include <stdbool.h>
#include <stddef.h>

/* dsts = the sum, of float32, or the copy of the sources. The first `kept` of dsts are read again
 * at once, by this core or another, and stay in the caches. Nothing overlaps. */
typedef void bench_mover_t(void *const dsts[], int dst_count, int kept, const void *const sources[],
                           int source_count, size_t bytes);

/* By vectors: the way to fetch what another core has just stored, on some processors. */
bench_mover_t bench_move_vectors;

/* The index-th; NULL past the last. */
bench_mover_t *bench_mover(int index);

#endif
