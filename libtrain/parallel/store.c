/*
 * Allocation, loading and reading of the store, and the optimizer step. All memory that collectives
 * access is allocated with coll_mem_alloc, so that peers can map it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/common/random.h"
#include "libtrain/parallel/store.h"
#include "libtrain/parallel/store_state.h"

/* ---- creation ---- */

static coll_status_t allocate_shared(train_store_t *store, size_t bytes, const char *what,
                                     float **values) {
  void *memory;
  if (bytes == 0) return COLL_OK;
  if (coll_mem_alloc(bytes, &memory) != COLL_OK) {
    return base_fail(COLL_ERROR_MEMORY, "cannot allocate %zu MiB of %s: %s", bytes >> 20, what,
                     coll_last_error(NULL));
  }
  *values = memory;
  store->bytes += bytes;
  return COLL_OK;
}

static coll_status_t allocate(train_store_t *store) {
  const train_partition_t *partition = store->partition;
  train_memory_t memory = train_memory_of(partition, store->options.stage);
  store_array_t *arrays = store->arrays;
  void *moments;
  COLL_TRY(base_alloc((size_t)partition->unit_count, sizeof *store->units, "the units",
                      (void **)&store->units));
  COLL_TRY(
      allocate_shared(store, memory.parameters, "parameters", &arrays[TRAIN_PARAMETERS].values));
  COLL_TRY(allocate_shared(store, memory.gradients, "gradients", &store->gradients.values));
  COLL_TRY(allocate_shared(store, store->workspaces.gradients * sizeof(float), "workspace",
                           &store->gradient_workspace));
  COLL_TRY(allocate_shared(store, store->workspaces.parameters * sizeof(float), "workspace",
                           &store->parameter_workspace));
  COLL_TRY(base_alloc(memory.moments, 1, "the optimizer state", &moments));
  arrays[TRAIN_FIRST_MOMENTS].values = moments;
  arrays[TRAIN_SECOND_MOMENTS].values = arrays[TRAIN_FIRST_MOMENTS].values + partition->owned;
  store->bytes += memory.moments;
  return COLL_OK;
}

/* At most one reduction and one gather per bucket are queued between two waits. */
static coll_status_t initialize(train_store_t *store) {
  const train_store_options_t *options = &store->options;
  int shard_count = train_stage_shards(options->stage, store->group->size);
  COLL_TRY(train_partition_create(store->layout->units, store->layout->unit_count,
                                  options->bucket_bytes, shard_count, &store->partition));
  store->shard_index = shard_count > 1 ? store->group->rank : 0;
  store->workspaces = train_workspaces_of(store->partition, options->stage);
  store->arrays[TRAIN_PARAMETERS].full = options->stage < 3;
  store->gradients.full = options->stage < 2;
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
  coll_mem_free(store->parameter_workspace);
  coll_mem_free(store->gradient_workspace);
  coll_mem_free(store->gradients.values);
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

coll_status_t train_store_load(train_store_t *store, const train_flat_t *from) {
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    const store_array_t *to = &store->arrays[array];
    for (int i = 0; i < store->partition->bucket_count; i++) {
      const train_bucket_t *bucket = &store->partition->buckets[i];
      size_t first = to->full ? 0 : (size_t)store->shard_index * bucket->shard;
      size_t count = to->full ? bucket->count : train_bucket_owned(bucket, store->shard_index);
      float *values = to->full ? store_unit_values(store, to, bucket->unit) + bucket->offset
                               : store_shard_values(store, to, bucket);
      COLL_TRY(from->read(from->context, (train_array_t)array, flat_offset(store, bucket) + first,
                          count, values));
    }
  }
  return COLL_OK;
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
 * these elements, NULL if this rank does not have them. If root >= 0, only rank `root` has them and
 * broadcasts. */
static coll_status_t read_range(const train_store_t *store, size_t first, size_t count,
                                const float *values, int root, const request_t *request) {
  size_t end = first + count, request_end = request->first + request->count;
  size_t from = first > request->first ? first : request->first,
         to = end < request_end ? end : request_end;
  if (from >= to) return COLL_OK;
  float *target = request->values + (from - request->first);
  if (values != NULL) memcpy(target, values + (from - first), (to - from) * sizeof *target);
  return root < 0 ? COLL_OK : train_group_broadcast_floats(store->group, target, to - from, root);
}

static coll_status_t read_bucket(const train_store_t *store, const store_array_t *array,
                                 const train_bucket_t *bucket, const request_t *request) {
  size_t first = flat_offset(store, bucket);
  if (array->full) {
    const float *values = store_unit_values(store, array, bucket->unit) + bucket->offset;
    return read_range(store, first, bucket->count, values, -1, request);
  }
  for (int rank = 0; rank < store->partition->ranks; rank++) {
    const float *values =
        rank == store->shard_index ? store_shard_values(store, array, bucket) : NULL;
    COLL_TRY(read_range(store, first + (size_t)rank * bucket->shard,
                        train_bucket_owned(bucket, rank), values,
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

coll_status_t train_store_update(train_store_t *store, const train_adamw_t *adamw,
                                 float gradient_scale, float rate, uint64_t step) {
  const store_array_t *arrays = store->arrays;
  bool gathers = store->options.stage == 1 || store->options.stage == 2;
  for (int i = 0; i < store->partition->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[i];
    float *shard = store_shard_values(store, &arrays[TRAIN_PARAMETERS], bucket);
    train_adamw_step(store->options.pool, adamw, store->layout,
                     flat_offset(store, bucket) + (size_t)store->shard_index * bucket->shard,
                     train_bucket_owned(bucket, store->shard_index),
                     store_shard_values(store, &store->gradients, bucket), gradient_scale, rate,
                     step, shard, store_shard_values(store, &arrays[TRAIN_FIRST_MOMENTS], bucket),
                     store_shard_values(store, &arrays[TRAIN_SECOND_MOMENTS], bucket));
    if (!gathers) continue;
    COLL_TRY(train_comm_queue_allgather(
        &store->queue, shard,
        store_unit_values(store, &arrays[TRAIN_PARAMETERS], bucket->unit) + bucket->offset,
        bucket->shard, bucket->count));
  }
  return train_comm_queue_wait(&store->queue);
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
  const uint64_t numbers[] = {(uint64_t)options->stage, options->bucket_bytes,
                              options->comm.overlap, options->comm.bfloat16,
                              options->comm.skip_communication};
  return train_random_digest(train_random_digest(0, numbers, sizeof numbers), config,
                             sizeof *config);
}

size_t train_store_bytes(const train_store_t *store) {
  return store->bytes;
}
