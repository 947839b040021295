/* An array that is sent as bfloat16 is narrowed into the lower half of its own memory. */
#include "libtrain/parallel/comm_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

typedef struct train_widening {
  const uint16_t *narrow;
  size_t count;
  float *wide;
} train_widening_t;

coll_status_t train_comm_queue_init(const train_group_t *group, const train_comm_options_t *options,
                                    size_t calls, train_comm_queue_t *queue) {
  train_comm_queue_t made = {.group = group, .options = *options, .max_widenings = calls};
  void *memory;
  COLL_TRY(base_alloc(calls, sizeof *made.widenings, "the queue of collectives", &memory));
  made.widenings = memory;
  coll_status_t status = train_group_check(group, coll_stream_create(&made.stream));
  if (status != COLL_OK) {
    free(memory);
    return status;
  }
  *queue = made;
  return COLL_OK;
}

void train_comm_queue_free(train_comm_queue_t *queue) {
  coll_stream_destroy(queue->stream);
  free(queue->widenings);
  *queue = (train_comm_queue_t){0};
}

static coll_stream_t stream_of(const train_comm_queue_t *queue) {
  return queue->options.overlap ? queue->stream : NULL;
}

/* Sums over one rank, and gathers from it, leave the values as they are. */
static bool is_alone(const train_comm_queue_t *queue) {
  return queue->group->comm == NULL;
}

/* The type in which float32 values are sent. */
static train_dtype_t sent_type(bool narrow) {
  return narrow ? TRAIN_BFLOAT16 : TRAIN_FLOAT32;
}

typedef struct call {
  train_trace_kind_t kind;
  size_t bytes;
  uint64_t start_ns;
} call_t;

/* Begins a call that sends `count` elements, and counts them. */
static call_t begin_call(train_comm_queue_t *queue, train_trace_kind_t kind, size_t count,
                         train_dtype_t dtype) {
  size_t bytes = queue->group->size > 1 ? count * train_dtype_bytes(dtype) : 0;
  queue->bytes_sent += bytes;
  return (call_t){.kind = kind, .bytes = bytes, .start_ns = base_clock_now_ns()};
}

static void add_widening(train_comm_queue_t *queue, const uint16_t *narrow, size_t count,
                         float *wide) {
  assert(queue->widening_count < queue->max_widenings);
  queue->widenings[queue->widening_count++] = (train_widening_t){narrow, count, wide};
}

static void apply_widenings(train_comm_queue_t *queue) {
  for (size_t i = 0; i < queue->widening_count; i++) {
    const train_widening_t *widening = &queue->widenings[i];
    train_dtype_widen(TRAIN_BFLOAT16, widening->narrow, widening->count, widening->wide);
  }
  queue->widening_count = 0;
}

/* Ends every call. Without overlap the call is complete, so its result is widened now. */
static coll_status_t finish_call(train_comm_queue_t *queue, const call_t *call,
                                 coll_status_t status) {
  if (queue->options.overlap) {
    train_trace_queued(&queue->track, call->start_ns, call->bytes);
    return train_group_check(queue->group, status);
  }
  uint64_t end_ns = base_clock_now_ns();
  queue->waited_ns += end_ns - call->start_ns;
  train_trace_call(&queue->track, call->kind, call->start_ns, end_ns, call->bytes);
  COLL_TRY(train_group_check(queue->group, status));
  apply_widenings(queue);
  return COLL_OK;
}

coll_status_t train_comm_queue_allreduce(train_comm_queue_t *queue, float *values, size_t count) {
  bool narrow = queue->options.bfloat16;
  uint16_t *narrowed = (uint16_t *)values;
  if (queue->options.skip_communication || is_alone(queue)) return COLL_OK;
  if (narrow) {
    train_dtype_narrow(TRAIN_BFLOAT16, values, count, narrowed);
    add_widening(queue, narrowed, count, values);
  }
  const call_t call = begin_call(queue, TRAIN_TRACE_ALLREDUCE, 2 * count, sent_type(narrow));
  return finish_call(queue, &call,
                     coll_allreduce(values, values, count, train_group_dtype(sent_type(narrow)),
                                    COLL_SUM, queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_reduce(train_comm_queue_t *queue, float *values, size_t count) {
  bool narrow = queue->options.bfloat16;
  uint16_t *narrowed = (uint16_t *)values;
  if (queue->options.skip_communication || is_alone(queue)) return COLL_OK;
  if (narrow) {
    train_dtype_narrow(TRAIN_BFLOAT16, values, count, narrowed);
    if (queue->group->rank == 0) add_widening(queue, narrowed, count, values);
  }
  const call_t call = begin_call(queue, TRAIN_TRACE_REDUCE, count, sent_type(narrow));
  return finish_call(queue, &call,
                     coll_reduce(values, values, count, train_group_dtype(sent_type(narrow)),
                                 COLL_SUM, 0, queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_broadcast(train_comm_queue_t *queue, train_dtype_t dtype,
                                         void *values, size_t count) {
  if (queue->options.skip_communication || is_alone(queue)) return COLL_OK;
  const call_t call = begin_call(queue, TRAIN_TRACE_BROADCAST, count, dtype);
  return finish_call(queue, &call,
                     coll_broadcast(values, values, count, train_group_dtype(dtype), 0,
                                    queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_reduce_scatter(train_comm_queue_t *queue, float *bucket,
                                              size_t shard, size_t count) {
  bool narrow = queue->options.bfloat16;
  size_t first = (size_t)queue->group->rank * shard, all = (size_t)queue->group->size * shard;
  uint16_t *narrowed = (uint16_t *)bucket;
  void *received = narrow ? (void *)(narrowed + first) : (void *)(bucket + first);
  if (queue->options.skip_communication || is_alone(queue)) return COLL_OK;
  if (narrow) {
    train_dtype_narrow(TRAIN_BFLOAT16, bucket, all, narrowed);
    add_widening(queue, narrowed + first, shard, bucket + first);
  }
  const call_t call = begin_call(queue, TRAIN_TRACE_REDUCE_SCATTER, count, sent_type(narrow));
  return finish_call(
      queue, &call,
      coll_reduce_scatter(bucket, received, shard, train_group_dtype(sent_type(narrow)), COLL_SUM,
                          queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_allgather(train_comm_queue_t *queue, train_dtype_t dtype,
                                         const void *own, void *bucket, size_t shard,
                                         size_t count) {
  size_t first = (size_t)queue->group->rank * shard, all = (size_t)queue->group->size * shard;
  bool narrow = dtype == TRAIN_FLOAT32 && queue->options.bfloat16 &&
                own != train_dtype_at(dtype, bucket, first);
  if (queue->options.skip_communication) return COLL_OK;
  if (is_alone(queue)) {
    if (own != bucket) memcpy(bucket, own, shard * train_dtype_bytes(dtype));
    return COLL_OK;
  }
  if (narrow) {
    uint16_t *narrowed = bucket;
    train_dtype_narrow(TRAIN_BFLOAT16, own, shard, narrowed + first);
    add_widening(queue, narrowed, all, bucket);
    own = narrowed + first;
    dtype = TRAIN_BFLOAT16;
  }
  const call_t call = begin_call(queue, TRAIN_TRACE_ALLGATHER, count, dtype);
  return finish_call(queue, &call,
                     coll_allgather(own, bucket, shard, train_group_dtype(dtype),
                                    queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_wait(train_comm_queue_t *queue) {
  uint64_t start_ns = base_clock_now_ns();
  coll_status_t status = coll_stream_sync(queue->stream);
  uint64_t end_ns = base_clock_now_ns();
  queue->waited_ns += end_ns - start_ns;
  train_trace_waited(&queue->track, start_ns, end_ns);
  COLL_TRY(train_group_check(queue->group, status));
  apply_widenings(queue);
  return COLL_OK;
}
