/*
 * Allocation, loading and reading of the store, and the optimizer step. All memory that collectives
 * access is allocated with coll_mem_alloc, so that peers can map it.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/common/random.h"
#include "libtrain/parallel/store.h"
#include "libtrain/parallel/store_state.h"

/* ---- creation ---- */

static coll_status_t allocate_shared(train_store_t *store, size_t bytes, const char *what,
                                     void **values) {
  if (bytes == 0) return COLL_OK;
  if (coll_mem_alloc(bytes, values) != COLL_OK) {
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
  store_array_t *arrays = store->arrays, *weights = &store->weights;
  COLL_TRY(base_alloc((size_t)partition->unit_count, sizeof *store->units, "the units",
                      (void **)&store->units));
  COLL_TRY(
      allocate_shared(store, memory.parameters, "parameters", &arrays[TRAIN_PARAMETERS].values));
  COLL_TRY(allocate_shared(store, memory.weights, "weights", &weights->values));
  if (memory.weights == 0) *weights = arrays[TRAIN_PARAMETERS];
  COLL_TRY(allocate_shared(store, memory.gradients, "gradients", &store->gradients.values));
  COLL_TRY(allocate_workspaces(store, train_dtype_bytes(weights->dtype)));
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
    store->arrays[array].dtype = stored[TRAIN_KIND_MOMENTS];
  }
  store->arrays[TRAIN_PARAMETERS] = (store_array_t){.dtype = stored[TRAIN_KIND_PARAMETERS],
                                                    .full = options->stage < sharded_from};
  store->weights = (store_array_t){.dtype = stored[TRAIN_KIND_WEIGHTS], .full = options->stage < 3};
  store->gradients =
      (store_array_t){.dtype = stored[TRAIN_KIND_GRADIENTS], .full = options->stage < 2};
}

/* At most one reduction and one gather per bucket are queued between two waits. */
static coll_status_t initialize(train_store_t *store) {
  const train_store_options_t *options = &store->options;
  int shard_count = train_stage_shards(options->stage, store->group->size);
  COLL_TRY(train_partition_create(store->layout->units, store->layout->unit_count,
                                  options->bucket_bytes, shard_count, &store->partition));
  store->shard_index = shard_count > 1 ? store->group->rank : 0;
  store->workspaces = train_workspaces_of(store->partition, options->stage);
  describe_arrays(store);
  COLL_TRY(allocate(store));
  return train_comm_queue_init(store->group, &options->comm,
                               2 * (size_t)store->partition->bucket_count, &store->queue);
}

coll_status_t train_store_create(const train_layout_t *layout, const train_group_t *group,
                                 const train_store_options_t *options, train_store_t **store) {
  train_store_t *made = NULL;
  if (options->stage < 0 || options->stage > TRAIN_STAGE_MAX) {
    return base_fail(COLL_ERROR_INVALID, "stage %d: give 0 to %d", options->stage, TRAIN_STAGE_MAX);
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

/* ---- reading and loading ---- */

/* The offset of a bucket in the flat space. */
static size_t flat_offset(const train_store_t *store, const train_bucket_t *bucket) {
  return store->layout->units[bucket->unit].offset + bucket->offset;
}

/* Reads elements of the flat space into values[count] of that type; buffer[TRAIN_CHUNK] is for
 * types other than float32. */
static coll_status_t read_as(const train_flat_t *from, train_array_t array, size_t first,
                             size_t count, train_dtype_t dtype, void *values, float *buffer) {
  if (dtype == TRAIN_FLOAT32) return from->read(from->context, array, first, count, values);
  for (size_t at = 0; at < count; at += TRAIN_CHUNK) {
    size_t here = count - at < TRAIN_CHUNK ? count - at : TRAIN_CHUNK;
    COLL_TRY(from->read(from->context, array, first + at, here, buffer));
    train_dtype_narrow(dtype, buffer, here, train_dtype_at(dtype, values, at));
  }
  return COLL_OK;
}

static coll_status_t load_array(const train_store_t *store, const train_flat_t *from,
                                train_array_t array, const store_array_t *to, float *buffer) {
  for (int i = 0; i < store->partition->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[i];
    size_t first = to->full ? 0 : (size_t)store->shard_index * bucket->shard;
    size_t count = to->full ? bucket->count : train_bucket_owned(bucket, store->shard_index);
    void *values =
        to->full ? store_bucket_values(store, to, bucket) : store_shard_values(store, to, bucket);
    COLL_TRY(
        read_as(from, array, flat_offset(store, bucket) + first, count, to->dtype, values, buffer));
  }
  return COLL_OK;
}

static coll_status_t load_arrays(const train_store_t *store, const train_flat_t *from,
                                 float *buffer) {
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    COLL_TRY(load_array(store, from, (train_array_t)array, &store->arrays[array], buffer));
  }
  const store_array_t *parameters = &store->arrays[TRAIN_PARAMETERS], *weights = &store->weights;
  if (!store_copies_weights(store)) return COLL_OK;
  if (weights->full != parameters->full) {
    return load_array(store, from, TRAIN_PARAMETERS, weights, buffer);
  }
  train_dtype_narrow(weights->dtype, parameters->values, store->partition->owned, weights->values);
  return COLL_OK;
}

coll_status_t train_store_load(train_store_t *store, const train_flat_t *from) {
  void *buffer;
  COLL_TRY(base_alloc(TRAIN_CHUNK, sizeof(float), "the buffer of a load", &buffer));
  coll_status_t status = load_arrays(store, from, buffer);
  free(buffer);
  return status;
}

/* A new model as a flat space: parameters from a seed, zero moments. */
typedef struct initial_state {
  train_pool_t *pool;
  const train_layout_t *layout;
  uint64_t seed;
} initial_state_t;

static coll_status_t read_initial_state(void *context, train_array_t array, size_t first,
                                        size_t count, float *values) {
  const initial_state_t *initial_state = context;
  if (array == TRAIN_PARAMETERS) {
    train_layout_initialize(initial_state->pool, initial_state->layout, initial_state->seed, first,
                            count, values);
  } else {
    memset(values, 0, count * sizeof *values);
  }
  return COLL_OK;
}

coll_status_t train_store_initialize(train_store_t *store, uint64_t seed) {
  initial_state_t initial_state = {
      .pool = store->options.pool, .layout = store->layout, .seed = seed};
  const train_flat_t flat = {.context = &initial_state, .read = read_initial_state};
  return train_store_load(store, &flat);
}

/* The range that a read requests. */
typedef struct request {
  size_t first, count;
  float *values;
} request_t;

/* Copies the requested part of elements first .. first + count - 1 of the flat space. `values` are
 * these elements in that type, NULL if this rank does not have them. If root >= 0, only rank `root`
 * has them and broadcasts. */
static coll_status_t read_range(const train_store_t *store, size_t first, size_t count,
                                train_dtype_t dtype, const void *values, int root,
                                const request_t *request) {
  size_t end = first + count, request_end = request->first + request->count;
  size_t from = first > request->first ? first : request->first,
         to = end < request_end ? end : request_end;
  if (from >= to) return COLL_OK;
  float *target = request->values + (from - request->first);
  if (values != NULL) {
    train_dtype_widen(dtype, train_dtype_const_at(dtype, values, from - first), to - from, target);
  }
  return root < 0 ? COLL_OK : train_group_broadcast_floats(store->group, target, to - from, root);
}

static coll_status_t read_bucket(const train_store_t *store, const store_array_t *array,
                                 const train_bucket_t *bucket, const request_t *request) {
  size_t first = flat_offset(store, bucket);
  if (array->full) {
    return read_range(store, first, bucket->count, array->dtype,
                      store_bucket_values(store, array, bucket), -1, request);
  }
  for (int rank = 0; rank < store->partition->ranks; rank++) {
    const void *values =
        rank == store->shard_index ? store_shard_values(store, array, bucket) : NULL;
    COLL_TRY(read_range(store, first + (size_t)rank * bucket->shard,
                        train_bucket_owned(bucket, rank), array->dtype, values,
                        store->partition->ranks > 1 ? rank : -1, request));
  }
  return COLL_OK;
}

static coll_status_t read_flat(void *context, train_array_t array, size_t first, size_t count,
                               float *values) {
  const train_store_t *store = context;
  const request_t request = {.first = first, .count = count, .values = values};
  for (int i = 0; i < store->partition->bucket_count; i++) {
    COLL_TRY(read_bucket(store, &store->arrays[array], &store->partition->buckets[i], &request));
  }
  return COLL_OK;
}

train_flat_t train_store_flat(train_store_t *store) {
  return (train_flat_t){.context = store, .read = read_flat};
}

/* ---- a step ---- */

void train_store_begin(train_store_t *store, int micro_batches) {
  assert(micro_batches >= 1);
  store->micro_batches = micro_batches;
  store->micro_batch = 0;
  store->queue.bytes_sent = 0;
  store->queue.waited_ns = 0;
}

/* Sum of squares of the part of a bucket that only this rank counts. At stage 0 all ranks have the
 * same gradients and divide the bucket among them; otherwise each counts its shard. */
static double own_squares(const train_store_t *store, const train_bucket_t *bucket) {
  const float *shard = store_shard_values(store, &store->gradients, bucket);
  size_t first = 0, count = train_bucket_owned(bucket, store->shard_index);
  if (store->options.stage == 0) {
    size_t rank = (size_t)store->group->rank, size = (size_t)store->group->size;
    first = bucket->count * rank / size;
    count = bucket->count * (rank + 1) / size - first;
  }
  return train_square_sum(store->options.pool, shard + first, count);
}

coll_status_t train_store_finish(train_store_t *store, double *squares) {
  assert(store->micro_batch == store->micro_batches);
  double sum = 0;
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
  const train_adamw_arrays_t shards = {
      .precision = store->options.precision,
      .gradients = store_shard_values(store, &store->gradients, bucket),
      .parameters = store_shard_values(store, &arrays[TRAIN_PARAMETERS], bucket),
      .weights =
          store_copies_weights(store) ? store_shard_values(store, &store->weights, bucket) : NULL,
      .first_moments = store_shard_values(store, &arrays[TRAIN_FIRST_MOMENTS], bucket),
      .second_moments = store_shard_values(store, &arrays[TRAIN_SECOND_MOMENTS], bucket)};
  train_adamw_step(store->options.pool, adamw, store->layout,
                   flat_offset(store, bucket) + (size_t)store->shard_index * bucket->shard,
                   train_bucket_owned(bucket, store->shard_index), &shards, gradient_scale, rate,
                   step);
}

coll_status_t train_store_update(train_store_t *store, const train_adamw_t *adamw,
                                 float gradient_scale, float rate, uint64_t step) {
  const store_array_t *weights = &store->weights;
  bool gathers = store->options.stage == 1 || store->options.stage == 2;
  for (int i = 0; i < store->partition->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[i];
    update_bucket(store, bucket, adamw, gradient_scale, rate, step);
    if (!gathers) continue;
    COLL_TRY(train_comm_queue_allgather(
        &store->queue, weights->dtype, store_shard_values(store, weights, bucket),
        store_bucket_values(store, weights, bucket), bucket->shard, bucket->count));
  }
  return train_comm_queue_wait(&store->queue);
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

/* The place in the flat space of the last such element of this rank's shards, or -1. */
static int64_t last_not_finite_owned(const train_store_t *store, const store_array_t *array) {
  for (int i = store->partition->bucket_count - 1; i >= 0; i--) {
    const train_bucket_t *bucket = &store->partition->buckets[i];
    size_t first = flat_offset(store, bucket) + (size_t)store->shard_index * bucket->shard;
    int64_t found = last_not_finite(array->dtype, store_shard_values(store, array, bucket),
                                    train_bucket_owned(bucket, store->shard_index));
    if (found >= 0) return (int64_t)first + found;
  }
  return -1;
}

coll_status_t train_store_find_not_finite(train_store_t *store, int *tensor, train_kind_t *kind) {
  int64_t last[2] = {last_not_finite_owned(store, &store->gradients),
                     last_not_finite_owned(store, &store->weights)};
  COLL_TRY(train_group_max(store->group, last, 2));
  *kind = last[1] >= 0 ? TRAIN_KIND_WEIGHTS : TRAIN_KIND_GRADIENTS;
  int64_t element = last[1] >= 0 ? last[1] : last[0];
  int found = element < 0 ? -1 : store->layout->tensor_count - 1;
  while (found >= 0 && (int64_t)store->layout->tensors[found].offset > element) found--;
  *tensor = found;
  return COLL_OK;
}

/* ---- statistics ---- */

train_traffic_t train_store_traffic(const train_store_t *store) {
  return (train_traffic_t){.bytes_sent = store->queue.bytes_sent,
                           .waited_ns = store->queue.waited_ns};
}

void train_store_set_overlap(train_store_t *store, bool overlap) {
  store->queue.options.overlap = overlap;
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
                              (uint64_t)options->precision};
  return train_random_digest(train_random_digest(0, numbers, sizeof numbers), config,
                             sizeof *config);
}

size_t train_store_bytes(const train_store_t *store) {
  return store->bytes;
}
