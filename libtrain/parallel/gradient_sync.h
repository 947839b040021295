/*
 * Completes the gradients of tensors that several ranks hold alike, before the store reduces them
 * over the data ranks:
 *
 * - with sequence parallelism each tensor rank has rows of the layernorms' inputs only; the
 *   gradients of their weights and biases are summed over the tensor ranks (Korthikanti et al.
 *   2022);
 * - the first and the last stage of a pipeline both hold the token table (Narayanan et al. 2021);
 *   when all micro-batches are done, the first gets the sum of its gradients over the two. It alone
 *   updates the table and sends it back (train_store_share_table), so that both have the same bits
 *   in whatever order their data ranks add.
 *
 * It stands between the passes and the store as a provider (model/param_provider.h).
 */
#ifndef LIBTRAIN_PARALLEL_GRADIENT_SYNC_H
#define LIBTRAIN_PARALLEL_GRADIENT_SYNC_H

#include "libtrain/model/param_provider.h"
#include "libtrain/parallel/axis.h"

typedef struct train_gradient_sync {
  train_param_provider_t inner;
  const train_layout_t *layout;
  train_axis_t *tensor;    /* NULL: layernorms see all rows */
  train_axis_t *embedding; /* NULL: no other rank has a copy of the token table */
  bool every;              /* the store reduces the gradients of every micro-batch */
  int micro_batches;
  struct train_sync_unit *units; /* [unit_count] */
  float *vectors;                /* the vectors of a unit, side by side */
} train_gradient_sync_t;

/* Neither axis is given: calls go straight to `inner`. Axes, layout and inner provider must outlive
 * it. `stage` is the store's ZeRO stage, below 2 if embedding is given. */
coll_status_t train_gradient_sync_init(const train_layout_t *layout, train_param_provider_t inner,
                                       train_axis_t *tensor, train_axis_t *embedding, int stage,
                                       train_gradient_sync_t *sync);
void train_gradient_sync_free(train_gradient_sync_t *sync);

/* The provider for the passes. */
train_param_provider_t train_gradient_sync_provider(train_gradient_sync_t *sync);

/* Begins an accumulation cycle, as train_store_begin. */
void train_gradient_sync_begin(train_gradient_sync_t *sync, int micro_batches);

/* After all passes of the cycle: sums the gradients of the token table. Collective over the
 * embedding axis. */
coll_status_t train_gradient_sync_finish(train_gradient_sync_t *sync);

#endif
