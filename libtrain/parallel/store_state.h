/* The state of a parameter store, shared by store.c and store_provider.c. */
#ifndef LIBTRAIN_PARALLEL_STORE_STATE_H
#define LIBTRAIN_PARALLEL_STORE_STATE_H

#include "libtrain/files/flat.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/parallel/store_options.h"

/* An array of the model: all elements, ordered by unit, or only this rank's shards. */
typedef struct store_array {
  train_dtype_t dtype;
  void *values;
  bool full;
} store_array_t;

typedef enum reduction {
  REDUCTION_IDLE,
  REDUCTION_READY,     /* the unit's gradients are complete and not queued yet */
  REDUCTION_IN_FLIGHT, /* queued, not waited for */
} reduction_t;

typedef struct store_unit {
  reduction_t reduction;
  bool accumulates; /* reduced gradients are added to those of earlier micro-batches */
} store_unit_t;

struct train_store {
  const train_layout_t *layout;
  const train_group_t *group;
  train_store_options_t options;
  train_partition_t *partition;
  int shard_index; /* of this rank, 0 .. partition->ranks - 1 */
  train_comm_queue_t queue;
  train_workspaces_t workspaces;
  store_array_t arrays[TRAIN_ARRAYS], gradients;
  store_array_t weights; /* what the passes read: the parameters or a copy of them */
  float *gradient_workspace;
  void *weight_workspace; /* the workspaces of memory.h */
  size_t bytes;           /* of all arrays above */

  store_unit_t *units;
  int micro_batches, micro_batch; /* of the accumulation cycle; completed so far */
  int acquired, prefetched;       /* units, -1 for none: in use; gathered or being gathered */
  void *acquired_at, *prefetched_at;
};

/* Whether the weights are a copy of the parameters. */
static inline bool store_copies_weights(const struct train_store *store) {
  return store->weights.values != store->arrays[TRAIN_PARAMETERS].values;
}

/* The values of a unit in a full array. */
static inline void *store_unit_values(const struct train_store *store, const store_array_t *array,
                                      int unit) {
  return train_dtype_at(array->dtype, array->values, store->partition->units[unit].offset);
}

/* The values of a bucket in a full array. */
static inline void *store_bucket_values(const struct train_store *store, const store_array_t *array,
                                        const train_bucket_t *bucket) {
  return train_dtype_at(array->dtype, store_unit_values(store, array, bucket->unit),
                        bucket->offset);
}

/* The values of this rank's shard of a bucket. */
static inline void *store_shard_values(const struct train_store *store, const store_array_t *array,
                                       const train_bucket_t *bucket) {
  if (!array->full) return train_dtype_at(array->dtype, array->values, bucket->owned);
  return train_dtype_at(array->dtype, store_bucket_values(store, array, bucket),
                        (size_t)store->shard_index * bucket->shard);
}

/* Queues the reductions that are ready and waits for all collectives. Afterwards all gradients are
 * in store->gradients. */
coll_status_t store_finish_reductions(struct train_store *store);

#endif
