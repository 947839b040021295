/*
 * Contents of the store: loading what this rank holds, listing what it owns, and reading all of it
 * together. What a rank holds is a part of the whole model (train_layout_run).
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/parallel/store.h"
#include "libtrain/parallel/store_state.h"

/* Consecutive elements of this rank's layout, and where it holds them. */
typedef struct range {
  size_t local, count;
  train_dtype_t dtype;
  void *values;
} range_t;

/* The elements of a bucket that this rank holds; this rank has the array. */
static range_t held_range(const train_store_t *store, const store_array_t *array,
                          const train_bucket_t *bucket) {
  size_t index = store_shard_index(store, bucket->unit);
  size_t first = array->full ? 0 : index * bucket->shard;
  return (range_t){.local = store_flat_offset(store, bucket) + first,
                   .count = array->full ? bucket->count : train_bucket_owned(bucket, (int)index),
                   .dtype = array->dtype,
                   .values = array->full ? store_bucket_values(store, array, bucket)
                                         : store_shard_values(store, array, bucket)};
}

/* Those that it owns. */
static range_t owned_range(const train_store_t *store, const store_array_t *array,
                           const train_bucket_t *bucket) {
  const store_part_t part = store_own_part(store, bucket);
  range_t range = held_range(store, array, bucket);
  size_t skipped = store_flat_offset(store, bucket) + part.first - range.local;
  range.values = train_dtype_at(range.dtype, range.values, skipped);
  range.local += skipped;
  range.count = part.count;
  return range;
}

/* Cuts off the range's first elements, as many as follow each other in the flat space of the whole
 * model. *full is where they start there (train_layout_run). */
static range_t next_run(const train_store_t *store, range_t *range, size_t *full) {
  size_t length = train_layout_run(store->layout, range->local, full);
  range_t run = *range;
  if (run.count > length) run.count = length;
  range->values = train_dtype_at(range->dtype, range->values, run.count);
  range->local += run.count;
  range->count -= run.count;
  return run;
}

/* ---- loading ---- */

static coll_status_t load_array(const train_store_t *store, const train_flat_t *from,
                                train_array_t array, const store_array_t *to, float *buffer) {
  if (!store_has(store, to)) return COLL_OK;
  for (int i = 0; i < store->partition->bucket_count; i++) {
    range_t range = held_range(store, to, &store->partition->buckets[i]);
    while (range.count > 0) {
      size_t full;
      const range_t run = next_run(store, &range, &full);
      if (full == TRAIN_LAYOUT_PADDING) continue;
      COLL_TRY(train_flat_read_as(from, array, full, run.count, run.dtype, run.values, buffer));
    }
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
  if (weights->full != parameters->full || !store_has(store, parameters)) {
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
  train_layout_t *whole;
  COLL_TRY(train_layout_create(&store->layout->config, &whole));
  initial_state_t initial_state = {.pool = store->options.pool, .layout = whole, .seed = seed};
  const train_flat_t flat = {.context = &initial_state, .read = read_initial_state};
  coll_status_t status = train_store_load(store, &flat);
  train_layout_destroy(whole);
  return status;
}

/* ---- listing ---- */

static coll_status_t list_array(const void *context, train_array_t array,
                                const train_piece_taker_t *taker) {
  const train_store_t *store = context;
  if (!store_has(store, &store->arrays[array])) return COLL_OK;
  for (int i = 0; i < store->partition->bucket_count; i++) {
    range_t range = owned_range(store, &store->arrays[array], &store->partition->buckets[i]);
    while (range.count > 0) {
      size_t full;
      const range_t run = next_run(store, &range, &full);
      const train_tensor_t *tensor = train_layout_tensor_at(store->layout, run.local);
      if (tensor == NULL || !tensor->owned) continue;
      const train_piece_t piece = {.array = array,
                                   .first = full,
                                   .count = run.count,
                                   .dtype = run.dtype,
                                   .values = run.values};
      COLL_TRY(taker->take(taker->context, &piece));
    }
  }
  return COLL_OK;
}

train_pieces_t train_store_pieces(const train_store_t *store) {
  return (train_pieces_t){.context = store, .list = list_array};
}

/* ---- reading ---- */

/* The range that a read requests. */
typedef struct request {
  size_t first, count;
  float *values;
} request_t;

/* Copies the requested part of elements first .. first + count - 1 of the flat space. `values` are
 * these elements in that type, NULL if this rank does not have them. If root >= 0, only rank `root`
 * of the group has them and broadcasts. */
static coll_status_t read_range(const train_group_t *group, size_t first, size_t count,
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
  return root < 0 ? COLL_OK : train_group_broadcast_floats(group, target, to - from, root);
}

static coll_status_t read_bucket(const train_store_t *store, const store_array_t *array,
                                 const train_bucket_t *bucket, const request_t *request) {
  size_t first = store_flat_offset(store, bucket);
  if (array->full) {
    bool has = store_has(store, array);
    return read_range(store_group_of(store, bucket->unit), first, bucket->count, array->dtype,
                      has ? store_bucket_values(store, array, bucket) : NULL,
                      array->main_only ? 0 : -1, request);
  }
  int ranks = store->partition->units[bucket->unit].ranks;
  size_t own = store_shard_index(store, bucket->unit);
  for (int rank = 0; rank < ranks; rank++) {
    const void *values = (size_t)rank == own ? store_shard_values(store, array, bucket) : NULL;
    COLL_TRY(read_range(store_group_of(store, bucket->unit), first + (size_t)rank * bucket->shard,
                        train_bucket_owned(bucket, rank), array->dtype, values,
                        ranks > 1 ? rank : -1, request));
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
