/*
 * The collectives of a training step: sums of float32 gradients, and gathers of weights of any
 * type. They are queued on a stream, so that they overlap with computation, or executed
 * immediately. The queue counts bytes sent and measures the time spent waiting. float32 can be sent
 * as bfloat16: it is narrowed in place and widened when the queue is waited for.
 */
#ifndef LIBTRAIN_PARALLEL_COMM_QUEUE_H
#define LIBTRAIN_PARALLEL_COMM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/common/dtype.h"
#include "libtrain/parallel/group.h"
#include "libtrain/parallel/trace.h"

typedef struct train_comm_options {
  bool overlap;            /* calls are queued; otherwise they complete before they return */
  bool bfloat16;           /* float32 is sent as bfloat16 */
  bool skip_communication; /* sends nothing and leaves results undefined, to measure the time of
                            * everything else */
} train_comm_options_t;

typedef struct train_comm_queue {
  const train_group_t *group;
  train_comm_options_t options; /* overlap may be changed while no call is queued */
  coll_stream_t stream;
  struct train_widening *widenings; /* results to widen when the calls are complete */
  size_t widening_count, max_widenings;
  uint64_t bytes_sent;
  uint64_t waited_ns;        /* time that the calling thread waited for communication */
  train_trace_track_t track; /* the caller may set it */
} train_comm_queue_t;

/* Creates a queue for at most `calls` calls between two waits. The group must outlive it. */
coll_status_t train_comm_queue_init(const train_group_t *group, const train_comm_options_t *options,
                                    size_t calls, train_comm_queue_t *queue);
void train_comm_queue_free(train_comm_queue_t *queue);

/* These are collective. The memory belongs to the queue until train_comm_queue_wait and should be
 * allocated with coll_mem_alloc. `count` is the number of elements without padding; it is what is
 * counted as sent, as in the ZeRO paper: twice for an all-reduce, once for the others. Broadcasts
 * and reductions, which one of N ranks does not send on, are counted on all alike, too. */

/* values[count] = sums over all ranks. */
coll_status_t train_comm_queue_allreduce(train_comm_queue_t *queue, float *values, size_t count);

/* values[count] on rank 0 = sums over all ranks; on the others they become undefined. */
coll_status_t train_comm_queue_reduce(train_comm_queue_t *queue, float *values, size_t count);

/* values[count] = those of rank 0, in the type in which they are sent. */
coll_status_t train_comm_queue_broadcast(train_comm_queue_t *queue, train_dtype_t dtype,
                                         void *values, size_t count);

/* bucket[ranks * shard]: this rank's shard of it = sums of that shard over all ranks. The other
 * shards become undefined. */
coll_status_t train_comm_queue_reduce_scatter(train_comm_queue_t *queue, float *bucket,
                                              size_t shard, size_t count);

/* bucket[ranks * shard] = `own`[shard] of all ranks, both of the type `dtype`, in which they are
 * sent; except that float32 is sent as bfloat16 if the options say so and own is not this rank's
 * shard of the bucket itself, which then contains the parameters that the optimizer updates. */
coll_status_t train_comm_queue_allgather(train_comm_queue_t *queue, train_dtype_t dtype,
                                         const void *own, void *bucket, size_t shard, size_t count);

/* Waits until all calls are complete; returns the first failure among them. */
coll_status_t train_comm_queue_wait(train_comm_queue_t *queue);

#endif
