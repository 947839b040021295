/*
 * The collectives as a benchmark sees them: how a size in bytes becomes a count, how a time becomes
 * a bandwidth, and the call itself. Sizes and bus bandwidths are defined as nccl-tests defines them
 * (its doc/PERFORMANCE.md), so figures can be laid side by side.
 */
#ifndef BENCH_COLLECTIVES_H
#define BENCH_COLLECTIVES_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

bool bench_collective_reduces(coll_collective_t collective);
bool bench_collective_is_rooted(coll_collective_t collective);
bool bench_collective_in_place(coll_collective_t collective); /* coll.h defines an in-place form */

/* The call's count for a size of `bytes`, all of it (allreduce) or one of `ranks` equal blocks
 * (allgather), rounded down to whole elements, and the size that this
 * count stands for. */
size_t bench_collective_count(coll_collective_t collective, size_t bytes, coll_dtype_t dtype,
                              int ranks);
size_t bench_collective_bytes(coll_collective_t collective, size_t count, coll_dtype_t dtype,
                              int ranks);

/* busbw / algbw, where algbw is size over time: the share of the size that every rank's link must
 * carry, whatever the algorithm. 0 for a barrier, which has no size. */
double bench_collective_bus_factor(coll_collective_t collective, int ranks);

/* Elements that rank `from` sends to rank `to` in an alltoallv whose ranks send ranks*count
 * elements at most: the rank d places on gets d+1 shares, so all pairs differ and all ranks move
 * the same. */
size_t bench_alltoallv_count(size_t count, int ranks, int from, int to);

/* The four arrays of a coll_alltoallv, with blocks packed in order of rank; one allocation. */
typedef struct bench_vectors {
  size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
} bench_vectors_t;

coll_status_t bench_vectors_make(int ranks, bench_vectors_t *vectors);
void bench_vectors_fill(size_t count, int rank, int ranks, bench_vectors_t *vectors);
void bench_vectors_free(bench_vectors_t *vectors);

/* One call, ready to be made again and again on different buffers. */
typedef struct bench_call {
  coll_collective_t collective;
  size_t count;
  coll_dtype_t dtype;
  coll_op_t op;
  int root, rank, ranks;
  const bench_vectors_t *vectors; /* filled; alltoallv only */
  coll_comm_t comm;
  coll_stream_t stream;
} bench_call_t;

coll_status_t bench_call_make(const bench_call_t *call, const void *send, void *recv);

/* Passes a libcoll status on and, for a failure, makes its sentence ours: the library keeps its
 * own. */
coll_status_t bench_told(coll_comm_t comm, coll_status_t status);

#endif
