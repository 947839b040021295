/*
 * The store's provider interface. A stream can only be waited for as a whole. New collectives are
 * therefore queued after the wait for the previous ones, so that reducing block i and prefetching
 * block i - 2 overlap with the whole backward pass of block i - 1.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/parallel/store.h"
#include "libtrain/parallel/store_state.h"

static const train_partition_unit_t *sharded_unit(const train_store_t *store, int unit) {
  return &store->partition->units[unit];
}

/* ---- reducing gradients ---- */

/* The buffer to which the passes write the unit's gradients. */
static float *gradient_buffer(const train_store_t *store, int unit) {
  if (store->gradients.full) return store_unit_values(store, &store->gradients, unit);
  int slot = train_workspace_slot(store->partition, unit);
  return store->gradient_workspace + store->workspaces.gradient_offsets[slot];
}

static coll_status_t queue_reduction(train_store_t *store, int unit) {
  const train_partition_unit_t *sharded = sharded_unit(store, unit);
  float *gradients = gradient_buffer(store, unit);
  train_comm_queue_t *queue = store_queue_of(store, unit);
  store->units[unit].reduction = REDUCTION_IN_FLIGHT;
  for (int i = 0; i < sharded->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[sharded->first_bucket + i];
    float *at = gradients + bucket->offset;
    if (store->options.naive) {
      COLL_TRY(train_comm_queue_reduce(queue, at, bucket->count));
    } else if (store->options.stage == 0) {
      COLL_TRY(train_comm_queue_allreduce(queue, at, bucket->count));
    } else {
      COLL_TRY(train_comm_queue_reduce_scatter(queue, at, bucket->shard, bucket->count));
    }
  }
  return COLL_OK;
}

static coll_status_t queue_ready_reductions(train_store_t *store) {
  for (int unit = store->partition->unit_count - 1; unit >= 0; unit--) {
    if (store->units[unit].reduction == REDUCTION_READY) COLL_TRY(queue_reduction(store, unit));
  }
  return COLL_OK;
}

/* Copies or adds this rank's shards of a unit's reduced gradients from the workspace. */
static void copy_own_gradients(train_store_t *store, int unit) {
  const train_partition_unit_t *sharded = sharded_unit(store, unit);
  for (int i = 0; i < sharded->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[sharded->first_bucket + i];
    const float *reduced = gradient_buffer(store, unit) + bucket->offset +
                           store_shard_index(store, unit) * bucket->shard;
    float *own = store_shard_values(store, &store->gradients, bucket);
    if (!store->units[unit].accumulates) {
      memcpy(own, reduced, bucket->shard * sizeof *own);
    } else {
      for (size_t at = 0; at < bucket->shard; at++) own[at] += reduced[at];
    }
  }
}

coll_status_t store_wait(train_store_t *store) {
  COLL_TRY(train_comm_queue_wait(&store->queue));
  return store->options.experts != NULL ? train_comm_queue_wait(&store->expert_queue) : COLL_OK;
}

/* Waits until all queued collectives are complete. */
static coll_status_t wait_for_all(train_store_t *store) {
  COLL_TRY(store_wait(store));
  for (int unit = 0; unit < store->partition->unit_count; unit++) {
    if (store->units[unit].reduction != REDUCTION_IN_FLIGHT) continue;
    if (!store->gradients.full) copy_own_gradients(store, unit);
    store->units[unit].reduction = REDUCTION_IDLE;
  }
  return COLL_OK;
}

coll_status_t store_finish_reductions(train_store_t *store) {
  COLL_TRY(queue_ready_reductions(store));
  return wait_for_all(store);
}

/* ---- gathering weights ---- */

/* Starts to gather a unit at the free end of the weight workspace. */
static coll_status_t gather_unit(train_store_t *store, int unit) {
  const train_partition_unit_t *sharded = sharded_unit(store, unit);
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
  COLL_TRY(wait_for_all(store));
  store->acquired_at = store->prefetched_at;
  store->prefetched = -1;
  COLL_TRY(queue_ready_reductions(store));
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
        gradient_buffer(store, other) == gradient_buffer(store, unit)) {
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
    if (is_workspace_in_flight(store, unit)) COLL_TRY(wait_for_all(store));
    COLL_TRY(queue_ready_reductions(store));
  }
  store->units[unit].accumulates = accumulating;
  *gradients = gradient_buffer(store, unit);
  *overwrite = !(accumulating && store->gradients.full);
  return COLL_OK;
}

static coll_status_t close_gradients(void *context, int unit) {
  train_store_t *store = context;
  bool full = store->gradients.full,
       last = ++store->units[unit].micro_batches == store->micro_batches;
  if (!full || last) store->units[unit].reduction = REDUCTION_READY;
  return full || unit == 0 ? queue_ready_reductions(store) : COLL_OK;
}

train_param_provider_t train_store_provider(train_store_t *store) {
  return (train_param_provider_t){.context = store,
                                  .acquire = acquire,
                                  .release = release,
                                  .open_gradients = open_gradients,
                                  .close_gradients = close_gradients};
}
