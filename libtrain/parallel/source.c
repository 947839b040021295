/*
 * The store as the passes see it. A stream can only be waited for as a whole, so what is sent next
 * is held back until what must be waited for has arrived: reducing block i and fetching block i - 2
 * then have all of block i - 1's backward pass to do it in.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/parallel/store_internal.h"

static const train_shard_unit_t *cut_of(const train_store_t *store, int unit) {
  return &store->shards->units[unit];
}

/* ---- reducing ---- */

/* Where the passes put the unit's gradients. */
static float *open_at(const train_store_t *store, int unit) {
  if (store->gradients.whole) return store_unit_at(store, &store->gradients, unit);
  return store->open + store->workspaces.open_at[unit == 0 ? 0 : unit % 2 == 1 ? 1 : 2];
}

static coll_status_t send_gradients(train_store_t *store, int unit) {
  const train_shard_unit_t *cut = cut_of(store, unit);
  float *gradients = open_at(store, unit);
  store->units[unit].reduction = REDUCTION_FLYING;
  for (int i = 0; i < cut->bucket_count; i++) {
    const train_bucket_t *bucket = &store->shards->buckets[cut->first_bucket + i];
    float *at = gradients + bucket->offset;
    if (store->options.stage == 0) {
      COLL_TRY(train_wire_allreduce(&store->wire, at, bucket->count));
    } else {
      COLL_TRY(train_wire_reduce_scatter(&store->wire, at, bucket->share, bucket->count));
    }
  }
  return COLL_OK;
}

static coll_status_t send_all_ready(train_store_t *store) {
  for (int unit = store->shards->unit_count - 1; unit >= 0; unit--) {
    if (store->units[unit].reduction == REDUCTION_READY) COLL_TRY(send_gradients(store, unit));
  }
  return COLL_OK;
}

/* Takes this rank's shares of a unit's reduced gradients out of the workspace. */
static void keep_gradients(train_store_t *store, int unit) {
  const train_shard_unit_t *cut = cut_of(store, unit);
  for (int i = 0; i < cut->bucket_count; i++) {
    const train_bucket_t *bucket = &store->shards->buckets[cut->first_bucket + i];
    const float *reduced =
        open_at(store, unit) + bucket->offset + (size_t)store->owner * bucket->share;
    float *kept = store_share_at(store, &store->gradients, bucket);
    if (!store->units[unit].adds) {
      memcpy(kept, reduced, bucket->share * sizeof *kept);
    } else {
      for (size_t at = 0; at < bucket->share; at++) kept[at] += reduced[at];
    }
  }
}

/* Everything that was sent has arrived. */
static coll_status_t wait_for_all(train_store_t *store) {
  COLL_TRY(train_wire_wait(&store->wire));
  for (int unit = 0; unit < store->shards->unit_count; unit++) {
    if (store->units[unit].reduction != REDUCTION_FLYING) continue;
    if (!store->gradients.whole) keep_gradients(store, unit);
    store->units[unit].reduction = REDUCTION_IDLE;
  }
  return COLL_OK;
}

coll_status_t store_settle(train_store_t *store) {
  COLL_TRY(send_all_ready(store));
  return wait_for_all(store);
}

/* ---- gathering ---- */

/* Starts to gather a unit at the end of the workspace that the one in use leaves free. */
static coll_status_t fetch(train_store_t *store, int unit) {
  const train_shard_unit_t *cut = cut_of(store, unit);
  bool at_end = store->acquired_at == store->gathered;
  store->fetched = unit;
  store->fetched_at = store->gathered + (at_end ? store->workspaces.gathered - cut->padded : 0);
  for (int i = 0; i < cut->bucket_count; i++) {
    const train_bucket_t *bucket = &store->shards->buckets[cut->first_bucket + i];
    COLL_TRY(train_wire_allgather(
        &store->wire, store_share_at(store, &store->arrays[TRAIN_PARAMETERS], bucket),
        store->fetched_at + bucket->offset, bucket->share, bucket->count));
  }
  return COLL_OK;
}

static coll_status_t acquire_gathered(train_store_t *store, int unit, int next) {
  assert(store->acquired == -1);
  if (store->fetched != unit) COLL_TRY(fetch(store, unit));
  COLL_TRY(wait_for_all(store));
  store->acquired_at = store->fetched_at;
  store->fetched = -1;
  COLL_TRY(send_all_ready(store));
  if (next >= 0 && store->wire.options.overlap) COLL_TRY(fetch(store, next));
  store->acquired = unit;
  return COLL_OK;
}

/* ---- the source ---- */

static coll_status_t acquire(void *context, int unit, int next, const float **parameters) {
  train_store_t *store = context;
  const store_array_t *array = &store->arrays[TRAIN_PARAMETERS];
  if (!array->whole) COLL_TRY(acquire_gathered(store, unit, next));
  *parameters = array->whole ? store_unit_at(store, array, unit) : store->acquired_at;
  return COLL_OK;
}

static void release(void *context, int unit) {
  train_store_t *store = context;
  assert(store->arrays[TRAIN_PARAMETERS].whole || store->acquired == unit);
  (void)unit;
  store->acquired = -1;
}

/* Whether the gradients that are being reduced lie where the unit's are to be put. */
static bool is_in_use(const train_store_t *store, int unit) {
  for (int other = 0; other < store->shards->unit_count; other++) {
    if (store->units[other].reduction == REDUCTION_FLYING &&
        open_at(store, other) == open_at(store, unit)) {
      return true;
    }
  }
  return false;
}

static coll_status_t open_gradients(void *context, int unit, float **gradients, bool *overwrite) {
  train_store_t *store = context;
  assert(store->micro_batch < store->micro_batches);
  bool accumulating = store->micro_batch > 0;
  if (!store->gradients.whole) {
    if (is_in_use(store, unit)) COLL_TRY(wait_for_all(store));
    COLL_TRY(send_all_ready(store));
  }
  store->units[unit].adds = accumulating;
  *gradients = open_at(store, unit);
  *overwrite = !(accumulating && store->gradients.whole);
  return COLL_OK;
}

static coll_status_t close_gradients(void *context, int unit) {
  train_store_t *store = context;
  bool whole = store->gradients.whole, last = store->micro_batch + 1 == store->micro_batches;
  if (!whole || last) store->units[unit].reduction = REDUCTION_READY;
  if (unit == 0) store->micro_batch++;
  return whole || unit == 0 ? send_all_ready(store) : COLL_OK;
}

train_param_provider_t train_store_provider(train_store_t *store) {
  return (train_param_provider_t){.context = store,
                                  .acquire = acquire,
                                  .release = release,
                                  .open_gradients = open_gradients,
                                  .close_gradients = close_gradients};
}
