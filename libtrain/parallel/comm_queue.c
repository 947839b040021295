/* An array that is sent as bfloat16 is narrowed into the lower half of its own memory. */
#include "libtrain/parallel/comm_queue.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

typedef struct train_widening {
  const uint16_t *narrow;
  size_t count;
  float *wide;
} train_widening_t;

/* Copies libcoll's last error to base_last_error. */
static coll_status_t copy_error(const train_comm_queue_t *queue, coll_status_t status) {
  if (status == COLL_OK) return COLL_OK;
  coll_comm_t failed = coll_comm_error(queue->group->comm) != COLL_OK ? queue->group->comm : NULL;
  return base_fail(status, "%s", coll_last_error(failed));
}

coll_status_t train_comm_queue_init(const train_group_t *group, const train_comm_options_t *options,
                                    size_t calls, train_comm_queue_t *queue) {
  train_comm_queue_t made = {.group = group, .options = *options, .max_widenings = calls};
  void *memory;
  COLL_TRY(base_alloc(calls, sizeof *made.widenings, "the queue of collectives", &memory));
  made.widenings = memory;
  coll_status_t status = copy_error(&made, coll_stream_create(&made.stream));
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

/* The type in which float32 values are sent. */
static train_dtype_t sent_type(bool narrow) {
  return narrow ? TRAIN_BFLOAT16 : TRAIN_FLOAT32;
}

static coll_dtype_t coll_dtype_of(train_dtype_t dtype) {
  static const coll_dtype_t types[TRAIN_DTYPES] = {[TRAIN_FLOAT32] = COLL_FLOAT32,
                                                   [TRAIN_BFLOAT16] = COLL_BFLOAT16,
                                                   [TRAIN_FLOAT16] = COLL_FLOAT16};
  return types[dtype];
}

static void count_sent(train_comm_queue_t *queue, size_t count, train_dtype_t dtype) {
  if (queue->group->size > 1) queue->bytes_sent += count * train_dtype_bytes(dtype);
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
static coll_status_t finish_call(train_comm_queue_t *queue, uint64_t start_ns,
                                 coll_status_t status) {
  if (queue->options.overlap) return copy_error(queue, status);
  queue->waited_ns += base_clock_now_ns() - start_ns;
  COLL_TRY(copy_error(queue, status));
  apply_widenings(queue);
  return COLL_OK;
}

coll_status_t train_comm_queue_allreduce(train_comm_queue_t *queue, float *values, size_t count) {
  bool narrow = queue->options.bfloat16;
  uint16_t *narrowed = (uint16_t *)values;
  if (queue->options.skip_communication) return COLL_OK;
  if (narrow) {
    train_dtype_narrow(TRAIN_BFLOAT16, values, count, narrowed);
    add_widening(queue, narrowed, count, values);
  }
  count_sent(queue, 2 * count, sent_type(narrow));
  uint64_t start_ns = base_clock_now_ns();
  return finish_call(queue, start_ns,
                     coll_allreduce(values, values, count, coll_dtype_of(sent_type(narrow)),
                                    COLL_SUM, queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_reduce_scatter(train_comm_queue_t *queue, float *bucket,
                                              size_t shard, size_t count) {
  bool narrow = queue->options.bfloat16;
  size_t first = (size_t)queue->group->rank * shard, all = (size_t)queue->group->size * shard;
  uint16_t *narrowed = (uint16_t *)bucket;
  void *received = narrow ? (void *)(narrowed + first) : (void *)(bucket + first);
  if (queue->options.skip_communication) return COLL_OK;
  if (narrow) {
    train_dtype_narrow(TRAIN_BFLOAT16, bucket, all, narrowed);
    add_widening(queue, narrowed + first, shard, bucket + first);
  }
  count_sent(queue, count, sent_type(narrow));
  uint64_t start_ns = base_clock_now_ns();
  return finish_call(queue, start_ns,
                     coll_reduce_scatter(bucket, received, shard, coll_dtype_of(sent_type(narrow)),
                                         COLL_SUM, queue->group->comm, stream_of(queue)));
}

coll_status_t train_comm_queue_allgather(train_comm_queue_t *queue, train_dtype_t dtype,
                                         const void *own, void *bucket, size_t shard,
                                         size_t count) {
  size_t first = (size_t)queue->group->rank * shard, all = (size_t)queue->group->size * shard;
  bool narrow = dtype == TRAIN_FLOAT32 && queue->options.bfloat16 &&
                own != train_dtype_at(dtype, bucket, first);
  if (queue->options.skip_communication) return COLL_OK;
  if (narrow) {
    uint16_t *narrowed = bucket;
    train_dtype_narrow(TRAIN_BFLOAT16, own, shard, narrowed + first);
    add_widening(queue, narrowed, all, bucket);
    own = narrowed + first;
    dtype = TRAIN_BFLOAT16;
  }
  count_sent(queue, count, dtype);
  uint64_t start_ns = base_clock_now_ns();
  return finish_call(queue, start_ns,
                     coll_allgather(own, bucket, shard, coll_dtype_of(dtype), queue->group->comm,
                                    stream_of(queue)));
}

coll_status_t train_comm_queue_wait(train_comm_queue_t *queue) {
  uint64_t start_ns = base_clock_now_ns();
  coll_status_t status = coll_stream_sync(queue->stream);
  queue->waited_ns += base_clock_now_ns() - start_ns;
  COLL_TRY(copy_error(queue, status));
  apply_widenings(queue);
  return COLL_OK;
}
