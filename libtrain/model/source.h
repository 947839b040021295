/*
 * The seam between the model's passes and whoever holds its parameters: one arena, or shares of
 * them on many ranks that are gathered and reduced as the passes come by. The passes ask unit by
 * unit (layout.h), in an order that allows to fetch ahead and to reduce behind.
 *
 * Forward acquires and releases units 0, 1 .. L, then 0 again. Training goes on from there: unit
 * 0's gradients are opened and stay open, 0 is released; units L .. 1 are each acquired, opened,
 * released, closed; at last unit 0 is closed, which ends the micro-batch. At most one unit is
 * acquired at a time, and at most unit 0 and one other are open.
 */
#ifndef LIBTRAIN_MODEL_SOURCE_H
#define LIBTRAIN_MODEL_SOURCE_H

#include <stdbool.h>

#include "base/status.h"
#include "libtrain/model/layout.h"

/* Each may block on peers and has coll.h's statuses; a pass that meets a failure releases what it
 * has acquired and returns it, leaving gradients open and undefined. */
typedef struct train_source {
  void *context;

  /* The parameters of the unit, [unit's count], to be read until its release. `next` is the unit
   * that will be acquired after this one, -1 when there is none in this pass. */
  coll_status_t (*acquire)(void *context, int unit, int next, const float **parameters);
  void (*release)(void *context, int unit);

  /* Where the unit's gradients go, [unit's count], until they are closed. *fresh: nothing is there
   * yet, and the pass overwrites every element, so nobody needs to zero them; otherwise it adds.
   * Fresh is each unit's first opening in a cycle of accumulation, or wherever a source collects
   * micro-batches in another place. */
  coll_status_t (*open_gradients)(void *context, int unit, float **gradients, bool *overwrite);

  /* The unit's gradients are complete for this micro-batch: reduction may start. */
  coll_status_t (*close_gradients)(void *context, int unit);
} train_source_t;

/* The plain source: all parameters, and gradients, in arrays of [parameter_count] owned by the
 * caller. It never fails. */
typedef struct train_arena {
  const train_layout_t *layout;
  float *parameters;
  float *gradients; /* NULL when nothing is trained */
  bool adding;      /* gradients of an earlier micro-batch are there; train_arena_begin clears it */
} train_arena_t;

/* Starts a cycle of accumulation: the next micro-batch overwrites the gradients. */
void train_arena_begin(train_arena_t *arena);

/* A source that reads and writes *arena, which must outlive it. */
train_source_t train_arena_source(train_arena_t *arena);

#endif
