/*
 * The ranks along one axis of the mesh, and the collectives by which they compute one model
 * together: on activations, statistics and gradients of an element type, in place or between
 * buffers. A pass makes many calls and checks once: after a failure every further call does nothing
 * and leaves its outputs undefined, and train_axis_status returns the failure.
 *
 * Calls complete before they return, or are queued between train_axis_queue and train_axis_wait, so
 * that they overlap with computation. An axis of one rank sends nothing; what a call would move
 * within this rank is copied.
 *
 * Buffers may be any memory. Memory from coll_mem_alloc is faster, because peers on this host map
 * it and do not copy through messages.
 *
 * Each axis counts the bytes that its rank sends, as rings send them; counted is n, the number of
 * elements given as `count`, times their size, on an axis of p ranks:
 *
 *     allreduce, max, sums     2 n (p - 1) / p    rounded down; exact if p divides n
 *     allgather                n (p - 1)          n is the part of one rank
 *     reduce-scatter           n (p - 1)          n is the part of one rank
 *     alltoall                 n (p - 1)          n is the block for one rank
 *     alltoallv                the elements for other ranks
 *     broadcast                n                  except on the last rank of the chain, root - 1
 *     reduce                   n                  except on the root
 *     send, sendrecv           n                  0 to this rank itself
 */
#ifndef LIBTRAIN_PARALLEL_AXIS_H
#define LIBTRAIN_PARALLEL_AXIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/common/dtype.h"
#include "libtrain/parallel/group.h"
#include "libtrain/parallel/trace.h"

#define TRAIN_AXIS_MESSAGE_BYTES 1024
#define TRAIN_AXIS_NAME_BYTES 96

typedef struct train_axis {
  train_group_t group;  /* rank: the coordinate of this rank on the axis */
  coll_stream_t stream; /* of queued calls; NULL until the first */
  bool queues;
  bool serial; /* the caller may set it while nothing is queued: calls always complete before
                * they return, to measure how long they take; results are the same */
  char name[TRAIN_AXIS_NAME_BYTES]; /* "pp of ranks 0 4 8 12", before the texts of failed calls,
                                     * which number the ranks of the axis; the owner may set it */
  coll_status_t status;             /* the first failure */
  char message[TRAIN_AXIS_MESSAGE_BYTES];
  uint64_t bytes_sent; /* counters: the caller may set them to 0 */
  uint64_t waited_ns;  /* time that the calling thread waited in calls and in train_axis_wait */
  train_trace_track_t track; /* the caller may set it */
} train_axis_t;

/* comm NULL: an axis of one rank. Otherwise the communicator of the axis, whose owner remains the
 * caller, and which must outlive the axis. An axis is used by one thread at a time. */
coll_status_t train_axis_init(coll_comm_t comm, train_axis_t *axis);
void train_axis_free(train_axis_t *axis);

/* COLL_OK, or the first failure of the axis, whose text becomes base_last_error. */
coll_status_t train_axis_status(const train_axis_t *axis);

/* Makes the axis fail with `status` and base_last_error, unless it has failed before, and aborts
 * the communicator, so that the other ranks of the axis fail as well instead of waiting. A failed
 * call does this by itself. */
void train_axis_fail(train_axis_t *axis, coll_status_t status);

/* Calls from here to train_axis_wait are queued, and executed in order beside the caller. Their
 * buffers belong to the axis until then. */
void train_axis_queue(train_axis_t *axis);

/* Waits until the queued calls are complete. Calls then complete before they return again. */
void train_axis_wait(train_axis_t *axis);

/* ---- collectives ------------------------------------------------------------------------------
 * All ranks of the axis make the same calls in the same order. p is the number of ranks. */

/* values[count] = sums over the ranks, bit-identical on each. */
void train_axis_allreduce(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count);

/* all[p * count] = own[count] of all ranks in order. own may be its place in `all`. */
void train_axis_allgather(train_axis_t *axis, train_dtype_t dtype, const void *own, void *all,
                          size_t count);

/* own[count] = this rank's part of the sums of all[p * count] over the ranks. own may be its place
 * in `all`, whose other parts are then unchanged. */
void train_axis_reduce_scatter(train_axis_t *axis, train_dtype_t dtype, const void *all, void *own,
                               size_t count);

/* Block r of to[p * count] = the block for this rank of from[p * count] at rank r. May be the same
 * buffer. */
void train_axis_alltoall(train_axis_t *axis, train_dtype_t dtype, const void *from, void *to,
                         size_t count);

/* Blocks of different sizes: the elements from_offsets[r] .. + from_counts[r] of `from` are sent to
 * rank r, those that come from rank r go to to_offsets[r] .. + to_counts[r] of `to`. The two
 * buffers have no memory in common. The arrays of p are read before the call returns. */
typedef struct train_axis_blocks {
  const size_t *from_counts, *from_offsets, *to_counts, *to_offsets;
} train_axis_blocks_t;
void train_axis_alltoallv(train_axis_t *axis, train_dtype_t dtype, const void *from, void *to,
                          const train_axis_blocks_t *blocks);

/* to[r] = from[this rank] of rank r: exchanges the counts of train_axis_alltoallv. Not queued. */
void train_axis_exchange_counts(train_axis_t *axis, const size_t *from, size_t *to);

/* Replaces the values by their maxima, or sums, over the ranks. The maximum of a NaN and a number
 * is NaN. */
void train_axis_max(train_axis_t *axis, float *values, size_t count);
void train_axis_sum_floats(train_axis_t *axis, float *values, size_t count);
void train_axis_sum_doubles(train_axis_t *axis, double *values, size_t count);

/* Replaces the values of rank `root` by sums over the ranks; those of the others do not change. */
void train_axis_reduce(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count,
                       int root);

/* Replaces the values by those of rank `root`. */
void train_axis_broadcast(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count,
                          int root);

/* ---- messages ---------------------------------------------------------------------------------
 * The sends and receives between two ranks match in order. A send waits for its receive if much is
 * unreceived (coll.h: 256 KiB), and calls of one axis are executed in order: ranks that send to
 * each other use sendrecv, or two axes. */

void train_axis_send(train_axis_t *axis, train_dtype_t dtype, const void *values, size_t count,
                     int to_rank);
void train_axis_recv(train_axis_t *axis, train_dtype_t dtype, void *values, size_t count,
                     int from_rank);

/* Both directions at once, as in a ring: sends `from` to to_rank while from_rank's message is
 * received into `to`. The ranks may be equal, also to this one. The buffers have no memory in
 * common. */
void train_axis_sendrecv(train_axis_t *axis, train_dtype_t dtype, const void *from, int to_rank,
                         void *to, int from_rank, size_t count);

/* The rank `steps` after this one around the ring of the axis; before it if steps is negative. */
static inline int train_axis_neighbour(const train_axis_t *axis, int steps) {
  int at = (axis->group.rank + steps) % axis->group.size;
  return at < 0 ? at + axis->group.size : at;
}

#endif
