/* What store.c and source.c share: where everything lies, and what is under way. */
#ifndef LIBTRAIN_PARALLEL_STORE_INTERNAL_H
#define LIBTRAIN_PARALLEL_STORE_INTERNAL_H

#include "libtrain/parallel/memory.h"
#include "libtrain/parallel/store.h"

/* An array of the model: of all elements, unit by unit, or of those that this rank owns. */
typedef struct store_array {
  float *values;
  bool whole;
} store_array_t;

typedef enum reduction {
  REDUCTION_IDLE,
  REDUCTION_READY,  /* the unit's gradients are complete and wait to be sent */
  REDUCTION_FLYING, /* sent, not waited for */
} reduction_t;

typedef struct store_unit {
  reduction_t reduction;
  bool adds; /* what is reduced joins an earlier micro-batch's */
} store_unit_t;

struct train_store {
  const train_layout_t *layout;
  const train_team_t *team;
  train_store_options_t options;
  train_shards_t *shards;
  int owner; /* this rank among those that share the model: shards->ranks of them */
  train_wire_t wire;
  train_workspaces_t workspaces;
  store_array_t arrays[TRAIN_ARRAYS], gradients;
  float *open, *gathered; /* the workspaces */
  size_t bytes;           /* of all of these */

  store_unit_t *units;
  int micro_batches, micro_batch; /* of the cycle; complete so far */
  int acquired, fetched;          /* units, -1 for none: in use; gathered or on its way */
  float *acquired_at, *fetched_at;
};

/* Where the unit begins in an array that is whole. */
static inline float *store_unit_at(const train_store_t *store, const store_array_t *array,
                                   int unit) {
  return array->values + store->shards->units[unit].offset;
}

/* Where this rank's share of the bucket lies. */
static inline float *store_share_at(const train_store_t *store, const store_array_t *array,
                                    const train_bucket_t *bucket) {
  if (!array->whole) return array->values + bucket->owned;
  return store_unit_at(store, array, bucket->unit) + bucket->offset +
         (size_t)store->owner * bucket->share;
}

/* Sends what is ready and waits until nothing is under way: all gradients are where they stay. */
coll_status_t store_settle(train_store_t *store);

#endif
