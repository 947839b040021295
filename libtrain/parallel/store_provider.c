/*
 * The store's provider interface. A stream can only be waited for as a whole. New collectives are
 * therefore queued after the wait for the previous ones, so that reducing block i and prefetching
 * block i - 2 overlap with the whole backward pass of block i - 1.
 */
#include <assert.h>

#include "libtrain/parallel/store.h"
#include "libtrain/parallel/store_reductions.h"
#include "libtrain/parallel/store_state.h"

/* ---- gathering weights ---- */

/* Starts to gather a unit at the free end of the weight workspace. */
static coll_status_t gather_unit(train_store_t *store, int unit) {
  const train_partition_unit_t *sharded = &store->partition->units[unit];
  const store_array_t *weights = &store->weights;
  bool at_end = store->acquired_at == store->weight_workspace;
  store->prefetched = unit;
  store->prefetched_at = train_dtype_at(weights->dtype, store->weight_workspace,
                                        at_end ? store->workspaces.weights - sharded->padded : 0);
  for (int i = 0; i < sharded->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[sharded->first_bucket + i];
    COLL_TRY(train_comm_queue_allgather(
        store_queue_of(store, unit), weights->dtype, store_shard_values(store, weights, bucket),
        train_dtype_at(weights->dtype, store->prefetched_at, bucket->offset), bucket->shard,
        bucket->count));
  }
  return COLL_OK;
}

static coll_status_t acquire_gathered(train_store_t *store, int unit, int next) {
  assert(store->acquired == -1);
  if (store->prefetched != unit) COLL_TRY(gather_unit(store, unit));
  COLL_TRY(store_wait_for_reductions(store));
  store->acquired_at = store->prefetched_at;
  store->prefetched = -1;
  COLL_TRY(store_queue_ready_reductions(store));
  if (next >= 0 && store->queue.options.overlap) COLL_TRY(gather_unit(store, next));
  store->acquired = unit;
  return COLL_OK;
}

/* ---- provider interface ---- */

static coll_status_t acquire(void *context, int unit, int next, const void **parameters) {
  train_store_t *store = context;
  const store_array_t *weights = &store->weights;
  if (!weights->full) COLL_TRY(acquire_gathered(store, unit, next));
  *parameters = weights->full ? store_unit_values(store, weights, unit) : store->acquired_at;
  return COLL_OK;
}

static void release(void *context, int unit) {
  train_store_t *store = context;
  assert(store->weights.full || store->acquired == unit);
  (void)unit;
  store->acquired = -1;
}

/* Whether the unit's gradient buffer is still being reduced for another unit. */
static bool is_workspace_in_flight(const train_store_t *store, int unit) {
  for (int other = 0; other < store->partition->unit_count; other++) {
    if (store->units[other].reduction == REDUCTION_IN_FLIGHT &&
        store_gradient_buffer(store, other) == store_gradient_buffer(store, unit)) {
      return true;
    }
  }
  return false;
}

static coll_status_t open_gradients(void *context, int unit, float **gradients, bool *overwrite) {
  train_store_t *store = context;
  assert(store->units[unit].micro_batches < store->micro_batches);
  bool accumulating = store->units[unit].micro_batches > 0;
  if (!store->gradients.full) {
    if (is_workspace_in_flight(store, unit)) COLL_TRY(store_wait_for_reductions(store));
    COLL_TRY(store_queue_ready_reductions(store));
  }
  store->units[unit].accumulates = accumulating;
  *gradients = store_gradient_buffer(store, unit);
  *overwrite = !(accumulating && store->gradients.full);
  return COLL_OK;
}

static coll_status_t close_gradients(void *context, int unit) {
  train_store_t *store = context;
  bool full = store->gradients.full,
       last = ++store->units[unit].micro_batches == store->micro_batches;
  if (!full || last) store->units[unit].reduction = REDUCTION_READY;
  return full || unit == 0 ? store_queue_ready_reductions(store) : COLL_OK;
}

train_param_provider_t train_store_provider(train_store_t *store) {
  return (train_param_provider_t){.context = store,
                                  .acquire = acquire,
                                  .release = release,
                                  .open_gradients = open_gradients,
                                  .close_gradients = close_gradients};
}
