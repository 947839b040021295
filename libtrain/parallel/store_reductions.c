/* Each unit's gradients are reduced once they are complete, bucket by bucket. Where a rank keeps
 * only its shards of them, these are copied from the workspace after the wait. */
#include "libtrain/parallel/store_reductions.h"

#include <string.h>

#include "libtrain/parallel/store_state.h"

float *store_gradient_buffer(const struct train_store *store, int unit) {
  if (store->gradients.full) return store_unit_values(store, &store->gradients, unit);
  int slot = train_workspace_slot(store->partition, unit);
  return store->gradient_workspace + store->workspaces.gradient_offsets[slot];
}

static coll_status_t queue_reduction(struct train_store *store, int unit) {
  const train_partition_unit_t *sharded = &store->partition->units[unit];
  float *gradients = store_gradient_buffer(store, unit);
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

coll_status_t store_queue_ready_reductions(struct train_store *store) {
  for (int unit = store->partition->unit_count - 1; unit >= 0; unit--) {
    if (store->units[unit].reduction == REDUCTION_READY) COLL_TRY(queue_reduction(store, unit));
  }
  return COLL_OK;
}

/* Copies or adds this rank's shards of a unit's reduced gradients from the workspace. */
static void copy_own_gradients(struct train_store *store, int unit) {
  const train_partition_unit_t *sharded = &store->partition->units[unit];
  for (int i = 0; i < sharded->bucket_count; i++) {
    const train_bucket_t *bucket = &store->partition->buckets[sharded->first_bucket + i];
    const float *reduced = store_gradient_buffer(store, unit) + bucket->offset +
                           store_shard_index(store, unit) * bucket->shard;
    float *own = store_shard_values(store, &store->gradients, bucket);
    if (!store->units[unit].accumulates) {
      memcpy(own, reduced, bucket->shard * sizeof *own);
    } else {
      for (size_t at = 0; at < bucket->shard; at++) own[at] += reduced[at];
    }
  }
}

coll_status_t store_wait(struct train_store *store) {
  COLL_TRY(train_comm_queue_wait(&store->queue));
  return store->options.experts != NULL ? train_comm_queue_wait(&store->expert_queue) : COLL_OK;
}

coll_status_t store_wait_for_reductions(struct train_store *store) {
  COLL_TRY(store_wait(store));
  for (int unit = 0; unit < store->partition->unit_count; unit++) {
    if (store->units[unit].reduction != REDUCTION_IN_FLIGHT) continue;
    if (!store->gradients.full) copy_own_gradients(store, unit);
    store->units[unit].reduction = REDUCTION_IDLE;
  }
  return COLL_OK;
}

coll_status_t store_finish_reductions(struct train_store *store) {
  COLL_TRY(store_queue_ready_reductions(store));
  return store_wait_for_reductions(store);
}
