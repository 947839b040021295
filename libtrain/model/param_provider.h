/*
 * The interface through which a model's passes access parameters and gradients. A provider may
 * store them in one arena, or as shards on many ranks that it gathers and reduces during the
 * passes. Passes access one unit (layout.h) after another in a fixed order, which allows
 * prefetching parameters and overlapping the reduction of gradients.
 *
 * A pass computes a chunk of the part (model.h). Its order of units:
 *
 * - Forward: unit 0 if the chunk embeds; the blocks in order, each before its experts if it has
 *   some. Each is acquired and released.
 * - Classification, for evaluation: unit 0 is acquired and released.
 * - Backward: if the chunk classifies, unit 0 is acquired, its gradients are opened, which stay
 *   open, and it is released. From the last block to the first, the experts of a block, then the
 *   block: each is acquired, its gradients are opened, it is released, its gradients are closed. If
 *   blocks are recomputed, a block with experts is acquired and released once more before them. A
 *   chunk that embeds but does not classify then opens the gradients of unit 0, without acquiring
 *   it. The gradients of unit 0 are closed last, if they are open.
 * - If backward is split (model.h), its first part acquires and releases the units and opens and
 *   closes at most unit 0's gradients; its second part opens and closes the others, without
 *   acquiring them.
 *
 * For the whole model that is: forward 0, 1 .. L; backward 0, L .. 1, closing 0 at the end. A
 * chunk that neither embeds nor classifies does not use unit 0.
 *
 * In a pipeline the passes of several micro-batches and chunks are interleaved. So each unit counts
 * its own micro-batches: its gradients are complete when they have been closed as often as the
 * accumulation cycle has micro-batches. At most one unit is acquired at a time. The gradients of at
 * most unit 0 and one other unit are open at a time.
 */
#ifndef LIBTRAIN_MODEL_PARAM_PROVIDER_H
#define LIBTRAIN_MODEL_PARAM_PROVIDER_H

#include <stdbool.h>

#include "base/status.h"
#include "libtrain/common/dtype.h"
#include "libtrain/model/layout.h"

/* Each function may block on other ranks and returns coll.h's statuses. A pass that gets an
 * error releases the units it acquired and returns the error; open gradients stay open and are
 * undefined. */
typedef struct train_param_provider {
  void *context;

  /* Returns the parameters of the unit, [unit's count] of the element type of weights
   * (common/precision.h), valid until its release. `next` is the unit
   * that this pass will acquire next, -1 if there is none. */
  coll_status_t (*acquire)(void *context, int unit, int next, const void **parameters);
  void (*release)(void *context, int unit);

  /* Returns the buffer for the unit's gradients, [unit's count] in float32, valid until they are
   * closed. If *overwrite, the buffer is uninitialized and the pass overwrites every element;
   * otherwise the pass adds to it. *overwrite is true for the unit's first micro-batch of an
   * accumulation cycle, and always if the provider accumulates micro-batches elsewhere. */
  coll_status_t (*open_gradients)(void *context, int unit, float **gradients, bool *overwrite);

  /* The unit's gradients are complete for this micro-batch; the provider may reduce them. */
  coll_status_t (*close_gradients)(void *context, int unit);
} train_param_provider_t;

/* The simplest provider: all parameters and gradients in arrays of [parameter_count], owned by the
 * caller. It never fails. */
typedef struct train_arena {
  const train_layout_t *layout;
  train_dtype_t dtype; /* of the parameters */
  void *parameters;
  float *gradients; /* NULL without training */
  bool
      accumulating; /* contains gradients of an earlier micro-batch; cleared by train_arena_begin */
} train_arena_t;

/* Starts an accumulation cycle: the next micro-batch overwrites the gradients. */
void train_arena_begin(train_arena_t *arena);

/* A provider that accesses *arena, which must outlive it. */
train_param_provider_t train_arena_provider(train_arena_t *arena);

#endif
