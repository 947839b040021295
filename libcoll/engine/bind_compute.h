/*
 * Binding of copies and reductions. A reduction and the copies of its result that follow it become
 * one operation with several destinations.
 */
#ifndef ENGINE_BIND_COMPUTE_H
#define ENGINE_BIND_COMPUTE_H

#include "engine/binder.h"

/* The spans of a copy or reduction: destinations first; [0] is the one that the step itself
 * names. */
typedef struct engine_operation {
  engine_action_kind_t kind;
  const plan_span_t *dsts[DEVICE_DSTS_MAX];
  int32_t dst_count;
  const plan_span_t *sources;
  int32_t source_count;
  size_t end; /* the step after it */
} engine_operation_t;

/* The reduction of the current action, with the copies of its result. */
engine_operation_t engine_reduction(const engine_binder_t *b);

/* The number of actions that the operation takes: one, or one per block of its spans. */
int32_t engine_operation_pieces(const engine_binder_t *b, const engine_operation_t *op);

/* The hint for nontemporal stores (engine_action_t) of an action that stores `bytes` to each
 * destination: the bytes of the whole call if the data is not read again, else those of this
 * pass. */
size_t engine_operation_hint(const engine_binder_t *b, const engine_operation_t *op, size_t bytes);

/* Appends the actions of the operation, of the current step. */
coll_status_t engine_bind_operation(engine_binder_t *b, const engine_operation_t *op);
coll_status_t engine_bind_reduce(engine_binder_t *b);
coll_status_t engine_bind_copy(engine_binder_t *b);

/* Adds a store fence before peers are notified of data that may have been stored nontemporally,
 * where they access OUTPUT. */
coll_status_t engine_bind_store_fence(engine_binder_t *b);

#endif
