/*
 * The collectives of the benchmark: conversion of a size in bytes to a count and of a time to a
 * bandwidth, and the call itself. Sizes and bus bandwidths are defined as in nccl-tests (its
 * doc/PERFORMANCE.md), so that the figures can be compared.
 */
#ifndef BENCH_COLLECTIVES_H
#define BENCH_COLLECTIVES_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

bool bench_collective_reduces(coll_collective_t collective);
bool bench_collective_is_rooted(coll_collective_t collective);
bool bench_collective_in_place(coll_collective_t collective); /* supports calls in place (coll.h) */

/* The count of a call for a size of `bytes`, and the size for a count. The count stands for the
 * whole size (allreduce) or for one of `ranks` equal blocks (allgather); it is rounded down to
 * whole elements. */
size_t bench_collective_count(coll_collective_t collective, size_t bytes, coll_dtype_t dtype,
                              int ranks);
size_t bench_collective_bytes(coll_collective_t collective, size_t count, coll_dtype_t dtype,
                              int ranks);

/* busbw / algbw, where algbw is size / time: the part of the size that every rank's link must carry
 * with any algorithm. 0 for a barrier, which has no size. */
double bench_collective_bus_factor(coll_collective_t collective, int ranks);

/* Elements that rank `from` sends to rank `to` in an alltoallv in which a rank sends at most
 * ranks*count elements. Rank (from + d) mod ranks gets d + 1 shares. The blocks of a rank thus
 * differ in size, and all ranks send the same total. */
size_t bench_alltoallv_count(size_t count, int ranks, int from, int to);

/* Whether each rank has a block of its own size: allgatherv, reduce_scatterv, gatherv, scatterv. */
bool bench_collective_has_uneven_blocks(coll_collective_t collective);

/* Elements of a rank's block of these, whose blocks have at most ranks*count elements together:
 * rank r has r + 1 shares, or with `even` all have count. */
size_t bench_rank_count(size_t count, int ranks, int rank, bool even);

/* The arrays of the verbs whose blocks differ in size; blocks are packed in rank order. One
 * allocation. */
typedef struct bench_vectors {
  size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
} bench_vectors_t;

coll_status_t bench_vectors_make(int ranks, bench_vectors_t *vectors);
void bench_vectors_fill(size_t count, int rank, int ranks, bench_vectors_t *vectors);
/* Of uneven blocks: those that are sent and those that are received are the same. */
void bench_vectors_fill_uneven(size_t count, int ranks, bool even, bench_vectors_t *vectors);
void bench_vectors_free(bench_vectors_t *vectors);

/* The arguments of a call, except the buffers. */
typedef struct bench_call {
  coll_collective_t collective;
  size_t count;
  coll_dtype_t dtype;
  coll_op_t op;
  int root, rank, ranks;
  const bench_vectors_t *vectors; /* filled, if the verb has arrays */
  coll_comm_t comm;
  coll_stream_t stream;
} bench_call_t;

coll_status_t bench_call_make(const bench_call_t *call, const void *send, void *recv);

/* Returns the status. On failure copies libcoll's error message to base_last_error(): the library
 * has an instance of base of its own. */
coll_status_t bench_take_error(coll_comm_t comm, coll_status_t status);

#endif
