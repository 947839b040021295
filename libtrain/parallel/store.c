/*
 * Allocation of the store, and the optimizer step. All memory that collectives access is allocated
 * with coll_mem_alloc, so that peers can map it.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"
#include "libtrain/parallel/axis.h"
#include "libtrain/parallel/store.h"
#include "libtrain/parallel/store_reductions.h"
#include "libtrain/parallel/store_state.h"

/* ---- creation ---- */

static coll_status_t allocate_shared(train_store_t *store, size_t bytes, const char *what,
                                     void **values) {
  if (bytes == 0) return COLL_OK;
  if (coll_mem_alloc(COLL_DEVICE_HOST, bytes, values) != COLL_OK) {
    return base_fail(COLL_ERROR_MEMORY, "cannot allocate %zu MiB of %s: %s", bytes >> 20, what,
                     coll_last_error(NULL));
  }
  store->bytes += bytes;
  return COLL_OK;
}

static coll_status_t allocate_workspaces(train_store_t *store, size_t weight_bytes) {
  void *gradients = NULL;
  COLL_TRY(
      allocate_shared(store, store->workspaces.gradients * sizeof(float), "workspace", &gradients));
  store->gradient_workspace = gradients;
  return allocate_shared(store, store->workspaces.weights * weight_bytes, "workspace",
                         &store->weight_workspace);
}

static coll_status_t allocate(train_store_t *store) {
  const train_partition_t *partition = store->partition;
  train_memory_t memory =
      train_memory_of(partition, store->options.stage, store->options.precision);
  memory = train_memory_on_rank(&store->options, store->group->rank, &memory);
  store_array_t *arrays = store->arrays, *weights = &store->weights;
  COLL_TRY(base_alloc((size_t)partition->unit_count, sizeof *store->units, "the units",
                      (void **)&store->units));
  COLL_TRY(
      allocate_shared(store, memory.parameters, "parameters", &arrays[TRAIN_PARAMETERS].values));
  COLL_TRY(allocate_shared(store, memory.weights, "weights", &weights->values));
  if (!train_precision_copies_weights(store->options.precision)) {
    *weights = arrays[TRAIN_PARAMETERS];
  }
  COLL_TRY(allocate_shared(store, memory.gradients, "gradients", &store->gradients.values));
  COLL_TRY(allocate_workspaces(store, train_dtype_bytes(weights->dtype)));
  if (memory.moments == 0) return COLL_OK;
  COLL_TRY(
      base_alloc(memory.moments, 1, "the optimizer state", &arrays[TRAIN_FIRST_MOMENTS].values));
  arrays[TRAIN_SECOND_MOMENTS].values =
      (float *)arrays[TRAIN_FIRST_MOMENTS].values + partition->owned;
  store->bytes += memory.moments;
  return COLL_OK;
}

/* Determines the type of each array, and which arrays are full. */
static void describe_arrays(train_store_t *store) {
  const train_store_options_t *options = &store->options;
  const train_dtype_t *stored = train_policy_of(options->precision)->stored;
  int sharded_from = train_precision_copies_weights(options->precision) ? 1 : 3;
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    store->arrays[array] = (store_array_t){
        .dtype = stored[TRAIN_KIND_MOMENTS], .full = options->naive, .main_only = options->naive};
  }
  store->arrays[TRAIN_PARAMETERS] = (store_array_t){
      .dtype = stored[TRAIN_KIND_PARAMETERS],
      .full = options->stage < sharded_from,
      .main_only = options->naive && train_precision_copies_weights(options->precision)};
  store->weights = (store_array_t){.dtype = stored[TRAIN_KIND_WEIGHTS], .full = options->stage < 3};
  store->gradients =
      (store_array_t){.dtype = stored[TRAIN_KIND_GRADIENTS], .full = options->stage < 2};
}

/* At most one reduction and one gather per bucket are queued between two waits. */
static coll_status_t initialize(train_store_t *store) {
  const train_store_options_t *options = &store->options;
  COLL_TRY(train_partition_create(store->layout->units, store->layout->unit_count,
                                  options->bucket_bytes, options->stage, store->group->size,
                                  &store->partition));
  store->workspaces = train_workspaces_of(store->partition, options->stage);
  describe_arrays(store);
  COLL_TRY(allocate(store));
  size_t calls = 2 * (size_t)store->partition->bucket_count;
  COLL_TRY(train_comm_queue_init(store->group, &options->comm, calls, &store->queue));
  if (options->experts == NULL) return COLL_OK;
  return train_comm_queue_init(options->experts, &options->comm, calls, &store->expert_queue);
}

coll_status_t train_store_create(const train_layout_t *layout, const train_group_t *group,
                                 const train_store_options_t *options, train_store_t **store) {
  train_store_t *made = NULL;
  if (options->stage < 0 || options->stage > TRAIN_STAGE_MAX) {
    return base_fail(COLL_ERROR_INVALID, "stage %d: give 0 to %d", options->stage, TRAIN_STAGE_MAX);
  }
  if (options->naive && (options->stage > 0 || options->experts != NULL)) {
    return base_fail(COLL_ERROR_INVALID,
                     "naive data parallelism with %s: one rank updates the whole model",
                     options->stage > 0 ? "ZeRO" : "expert parallelism");
  }
  if (train_part_groups_experts(&layout->part) && options->experts == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "experts are on other ranks than dense tensors, but the store has no group of "
                     "the ranks with the same experts");
  }
  COLL_TRY(base_alloc(1, sizeof *made, "the parameter store", (void **)&made));
  made->layout = layout;
  made->group = group;
  made->options = *options;
  made->acquired = made->prefetched = -1;
  coll_status_t status = initialize(made);
  if (status != COLL_OK) {
    train_store_destroy(made);
    return status;
  }
  *store = made;
  return COLL_OK;
}

void train_store_destroy(train_store_t *store) {
  if (store == NULL) return;
  train_comm_queue_free(&store->queue);
  train_comm_queue_free(&store->expert_queue);
  free(store->arrays[TRAIN_FIRST_MOMENTS].values);
  coll_mem_free(store->weight_workspace);
  coll_mem_free(store->gradient_workspace);
  coll_mem_free(store->gradients.values);
  if (store_copies_weights(store)) coll_mem_free(store->weights.values);
  coll_mem_free(store->arrays[TRAIN_PARAMETERS].values);
  free(store->units);
  train_partition_destroy(store->partition);
  free(store);
}

/* ---- a step ---- */

void train_store_begin(train_store_t *store, int micro_batches) {
  assert(micro_batches >= 1);
  store->micro_batches = micro_batches;
  for (int unit = 0; unit < store->partition->unit_count; unit++) {
    store->units[unit].micro_batches = 0;
  }
  store->queue.bytes_sent = store->expert_queue.bytes_sent = 0;
  store->queue.waited_ns = store->expert_queue.waited_ns = 0;
}

/* Sum of squares of the elements from `at` of the flat space on that this part of the model
 * counts (train_tensor_t.owned). */
static double owned_squares(const train_store_t *store, size_t at, size_t count,
                            const float *gradients) {
  const train_layout_t *layout = store->layout;
  train_pool_t *pool = store->options.pool;
  double sum = 0;
  if (layout->whole) return train_square_sum(pool, gradients, count);
  for (size_t done = 0; done < count;) {
    const train_tensor_t *tensor = train_layout_tensor_at(layout, at + done);
    size_t full, end = tensor != NULL ? tensor->offset + train_tensor_count(tensor) - at
                                      : done + train_layout_run(layout, at + done, &full);
    bool owned = tensor != NULL && tensor->owned;
    if (end > count) end = count;
    if (owned) sum += train_square_sum(pool, gradients + done, end - done);
    done = end;
  }
  return sum;
}

/* Sum of squares of the part of a bucket that only this rank counts. */
static double own_squares(const train_store_t *store, const train_bucket_t *bucket) {
  const store_array_t *gradients = &store->gradients;
  const store_part_t part = store_own_part(store, bucket);
  const float *values = gradients->full
                            ? (float *)store_bucket_values(store, gradients, bucket) + part.first
                            : store_shard_values(store, gradients, bucket);
  return owned_squares(store, store_flat_offset(store, bucket) + part.first, part.count, values);
}

coll_status_t train_store_finish(train_store_t *store, double *squares) {
  double sum = 0;
  for (int unit = 0; unit < store->partition->unit_count; unit++) {
    bool empty = store->partition->units[unit].count == 0;
    assert(empty || store->units[unit].micro_batches == store->micro_batches);
    (void)empty;
  }
  COLL_TRY(store_finish_reductions(store));
  for (int i = 0; i < store->partition->bucket_count; i++) {
    sum += own_squares(store, &store->partition->buckets[i]);
  }
  *squares = sum;
  return COLL_OK;
}

static void update_bucket(train_store_t *store, const train_bucket_t *bucket,
                          const train_adamw_t *adamw, float gradient_scale, float rate,
                          uint64_t step) {
  const store_array_t *arrays = store->arrays;
  size_t index = store_shard_index(store, bucket->unit);
  const train_adamw_arrays_t shards = {
      .precision = store->options.precision,
      .gradients = store_shard_values(store, &store->gradients, bucket),
      .parameters = store_shard_values(store, &arrays[TRAIN_PARAMETERS], bucket),
      .weights =
          store_copies_weights(store) ? store_shard_values(store, &store->weights, bucket) : NULL,
      .first_moments = store_shard_values(store, &arrays[TRAIN_FIRST_MOMENTS], bucket),
      .second_moments = store_shard_values(store, &arrays[TRAIN_SECOND_MOMENTS], bucket)};
  train_adamw_step(store->options.pool, adamw, store->layout,
                   store_flat_offset(store, bucket) + index * bucket->shard,
                   train_bucket_owned(bucket, (int)index), &shards, gradient_scale, rate, step);
}

void train_store_share_table(train_store_t *store, train_axis_t *axis) {
  store->table_axis = axis;
}

/* Sends what this rank has updated of a bucket to the others. */
static coll_status_t queue_updated(train_store_t *store, const train_bucket_t *bucket) {
  const store_array_t *weights = &store->weights;
  train_comm_queue_t *queue = store_queue_of(store, bucket->unit);
  if (store->options.naive) {
    return train_comm_queue_broadcast(queue, weights->dtype,
                                      store_bucket_values(store, weights, bucket), bucket->count);
  }
  if (store->options.stage != 1 && store->options.stage != 2) return COLL_OK;
  return train_comm_queue_allgather(
      queue, weights->dtype, store_shard_values(store, weights, bucket),
      store_bucket_values(store, weights, bucket), bucket->shard, bucket->count);
}

static coll_status_t send_table(const train_store_t *store) {
  const train_tensor_t *table = train_layout_tensor(store->layout, 0, TRAIN_TOKEN_TABLE);
  const store_array_t *weights = &store->weights;
  assert(weights->full);
  train_axis_broadcast(
      store->table_axis, weights->dtype,
      train_dtype_at(weights->dtype, store_unit_values(store, weights, 0), table->offset),
      train_tensor_count(table), 0);
  return train_axis_status(store->table_axis);
}

coll_status_t train_store_update(train_store_t *store, const train_adamw_t *adamw,
                                 float gradient_scale, float rate, uint64_t step) {
  bool updates = !store->options.naive || store->group->rank == 0;
  for (int i = 0; i < store->partition->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[i];
    if (updates) update_bucket(store, bucket, adamw, gradient_scale, rate, step);
    COLL_TRY(queue_updated(store, bucket));
  }
  COLL_TRY(store_wait(store));
  return store->table_axis != NULL ? send_table(store) : COLL_OK;
}

/* ---- values that are not finite ---- */

/* The index of the last of values[count] that is infinite or NaN, -1 if there is none. */
static int64_t last_not_finite(train_dtype_t dtype, const void *values, size_t count) {
  float buffer[256];
  for (size_t end = count; end > 0;) {
    size_t here = (end - 1) % 256 + 1, first = end - here;
    const float *wide = train_dtype_read(dtype, values, first, here, buffer);
    for (size_t i = here; i-- > 0;) {
      if (!isfinite(wide[i])) return (int64_t)(first + i);
    }
    end = first;
  }
  return -1;
}

/* The place in the whole model's flat space of the last such element of this rank's shard of a
 * bucket, or -1. */
static int64_t last_not_finite_in(const train_store_t *store, const store_array_t *array,
                                  const train_bucket_t *bucket) {
  size_t index = store_shard_index(store, bucket->unit), full;
  size_t first = store_flat_offset(store, bucket) + index * bucket->shard;
  int64_t found = (int64_t)train_bucket_owned(bucket, (int)index);
  const void *values = store_shard_values(store, array, bucket);
  while ((found = last_not_finite(array->dtype, values, (size_t)found)) >= 0) {
    train_layout_run(store->layout, first + (size_t)found, &full);
    if (full != TRAIN_LAYOUT_PADDING) return (int64_t)full;
  }
  return -1;
}

/* Of all buckets. Where only rank 0 has the sums of the gradients, it alone looks. */
static int64_t last_not_finite_owned(const train_store_t *store, const store_array_t *array) {
  if (store->options.naive && store->group->rank > 0) return -1;
  for (int i = store->partition->bucket_count - 1; i >= 0; i--) {
    int64_t found = last_not_finite_in(store, array, &store->partition->buckets[i]);
    if (found >= 0) return found;
  }
  return -1;
}

coll_status_t train_store_find_not_finite(train_store_t *store, const train_group_t *group,
                                          int *tensor, train_kind_t *kind) {
  train_layout_t *whole;
  int64_t last[2] = {last_not_finite_owned(store, &store->gradients),
                     last_not_finite_owned(store, &store->weights)};
  COLL_TRY(train_group_max(group, last, 2));
  *kind = last[1] >= 0 ? TRAIN_KIND_WEIGHTS : TRAIN_KIND_GRADIENTS;
  int64_t element = last[1] >= 0 ? last[1] : last[0];
  COLL_TRY(train_layout_create(&store->layout->config, &whole));
  *tensor = -1;
  if (element >= 0) {
    *tensor = (int)(train_layout_tensor_at(whole, (size_t)element) - whole->tensors);
  }
  train_layout_destroy(whole);
  return COLL_OK;
}

/* ---- statistics ---- */

train_traffic_t train_store_traffic(const train_store_t *store) {
  const train_comm_queue_t *queue = &store->queue, *experts = &store->expert_queue;
  return (train_traffic_t){.bytes_sent = queue->bytes_sent + experts->bytes_sent,
                           .waited_ns = queue->waited_ns + experts->waited_ns};
}

void train_store_record(train_store_t *store, train_trace_t *trace, int track) {
  const train_trace_track_t at = {.trace = trace, .track = (uint8_t)track};
  store->queue.track = store->expert_queue.track = at;
}

void train_store_set_overlap(train_store_t *store, bool overlap) {
  store->queue.options.overlap = store->expert_queue.options.overlap = overlap;
}

const train_store_options_t *train_store_options(const train_store_t *store) {
  return &store->options;
}

const train_layout_t *train_store_layout(const train_store_t *store) {
  return store->layout;
}

uint64_t train_store_digest(const train_store_t *store) {
  const train_store_options_t *options = &store->options;
  const train_model_config_t *config = &store->layout->config;
  const uint64_t numbers[] = {(uint64_t)options->stage,
                              options->bucket_bytes,
                              options->comm.overlap,
                              options->comm.bfloat16,
                              options->comm.skip_communication,
                              (uint64_t)options->precision,
                              options->naive};
  return train_random_digest(train_random_digest(0, numbers, sizeof numbers), config,
                             sizeof *config);
}

size_t train_store_bytes(const train_store_t *store) {
  return store->bytes;
}
