/*
 * The state of a translation (bind.h), and the lists of the bound program that it appends to.
 */
#ifndef ENGINE_BINDER_H
#define ENGINE_BINDER_H

#include "engine/bind.h"
#include "plan/fuse.h"

typedef struct engine_binder {
  engine_bound_t *bound;
  const engine_world_t *world;
  const plan_program_t *program;
  bool only_receives; /* the program only receives: no sends, copies or reductions */
  engine_layout_t layout;
  plan_capabilities_t can; /* which steps become one action (plan/fuse.h) */
  const plan_lane_t *lane;
  size_t step;
  plan_fused_t fused; /* the steps of the current action */
  bool lacks_port;    /* a channel of the plan could not be made */
} engine_binder_t;

/* *index: of the buffer's base, which is appended where the bound program has none. */
coll_status_t engine_binder_add_base(engine_bound_t *bound, int rank, plan_buffer_t buffer,
                                     uint32_t *index);

/* Returns an action for the current step, not yet in the list. */
engine_action_t engine_binder_begin(const engine_binder_t *b, engine_action_kind_t kind);

/* Appends the index-th of the span's pieces as the action's next operand. */
coll_status_t engine_binder_add_operand(engine_binder_t *b, engine_action_t *action,
                                        const plan_span_t *span, int32_t pieces, int32_t index);
coll_status_t engine_binder_add_action(engine_binder_t *b, const engine_action_t *action);

/* channel: of the plan. A transport that cannot make the channel has no port: binding fails. */
engine_peer_t engine_binder_peer(engine_binder_t *b, int32_t rank, int32_t channel);

/* The sender of the message that the lane's step receives. */
engine_peer_t engine_binder_sender(engine_binder_t *b, size_t step);

#endif
