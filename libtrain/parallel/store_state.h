/* The state of a parameter store. store.c, store_provider.c and store_shards.c share it; the first
 * two call store_reductions.h, and none of them another. */
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
  bool main_only; /* only rank 0 has it; on the others values is NULL */
} store_array_t;

typedef enum reduction {
  REDUCTION_IDLE,
  REDUCTION_READY,     /* the unit's gradients are complete and not queued yet */
  REDUCTION_IN_FLIGHT, /* queued, not waited for */
} reduction_t;

typedef struct store_unit {
  reduction_t reduction;
  bool accumulates;  /* reduced gradients are added to those of earlier micro-batches */
  int micro_batches; /* of the accumulation cycle, whose gradients are complete */
} store_unit_t;

struct train_store {
  const train_layout_t *layout;
  const train_group_t *group;
  train_store_options_t options;
  train_partition_t *partition;
  train_comm_queue_t queue, expert_queue; /* the latter over options.experts, if given */
  train_workspaces_t workspaces;
  store_array_t arrays[TRAIN_ARRAYS], gradients;
  store_array_t weights; /* what the passes read: the parameters or a copy of them */
  float *gradient_workspace;
  void *weight_workspace; /* the workspaces of memory.h */
  size_t bytes;           /* of all arrays above */

  struct train_axis *table_axis; /* over which the token table is sent; NULL: none */
  store_unit_t *units;
  int micro_batches;        /* of the accumulation cycle */
  int acquired, prefetched; /* units, -1 for none: in use; gathered or being gathered */
  void *acquired_at, *prefetched_at;
};

/* The offset of a bucket in the layout's flat space. */
static inline size_t store_flat_offset(const struct train_store *store,
                                       const train_bucket_t *bucket) {
  return store->layout->units[bucket->unit].offset + bucket->offset;
}

/* The ranks that hold a unit, the queue of their collectives, and this rank's shard of the unit. */
static inline const train_group_t *store_group_of(const struct train_store *store, int unit) {
  bool own = store->options.experts != NULL && store->partition->units[unit].experts;
  return own ? store->options.experts : store->group;
}
static inline train_comm_queue_t *store_queue_of(struct train_store *store, int unit) {
  return store_group_of(store, unit) == store->group ? &store->queue : &store->expert_queue;
}
static inline size_t store_shard_index(const struct train_store *store, int unit) {
  bool sharded = store->partition->units[unit].ranks > 1;
  return sharded ? (size_t)store_group_of(store, unit)->rank : 0;
}

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
                        store_shard_index(store, bucket->unit) * bucket->shard);
}

/* Whether this rank has the array. */
static inline bool store_has(const struct train_store *store, const store_array_t *array) {
  return !array->main_only || store->group->rank == 0;
}

/* The part of a bucket that belongs to this rank alone, as elements of the bucket: its shard. Where
 * nothing is sharded, the ranks have an equal part each, or all belongs to the one that updates. */
typedef struct store_part {
  size_t first, count;
} store_part_t;
static inline store_part_t store_own_part(const struct train_store *store,
                                          const train_bucket_t *bucket) {
  const train_group_t *group = store_group_of(store, bucket->unit);
  size_t rank = (size_t)group->rank, size = (size_t)group->size;
  if (store->partition->units[bucket->unit].ranks == group->size) {
    return (store_part_t){rank * bucket->shard, train_bucket_owned(bucket, group->rank)};
  }
  if (store->options.naive) return (store_part_t){0, rank == 0 ? bucket->count : 0};
  size_t first = bucket->count * rank / size;
  return (store_part_t){first, bucket->count * (rank + 1) / size - first};
}

#endif
