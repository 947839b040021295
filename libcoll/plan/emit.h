/*
 * How builders write steps. An emitter appends to one rank's program. It stores the status of a
 * failed allocation, after which every call does nothing, so a builder reads like the algorithm and
 * checks the status once at the end.
 */
#ifndef PLAN_EMIT_H
#define PLAN_EMIT_H

#include "plan/plan.h"

typedef struct plan_emitter {
  const plan_t *plan;
  plan_program_t *program;
  int32_t rank;
  coll_status_t status;
} plan_emitter_t;

/* Spans of the emitter's own rank; plan_peer_*: of another rank. */
plan_span_t plan_input(const plan_emitter_t *e, int32_t first, int32_t count);
plan_span_t plan_output(const plan_emitter_t *e, int32_t first, int32_t count);
plan_span_t plan_scratch(const plan_emitter_t *e, int32_t first, int32_t count);
plan_span_t plan_peer_input(int32_t rank, int32_t first, int32_t count);
plan_span_t plan_peer_output(int32_t rank, int32_t first, int32_t count);
plan_span_t plan_peer_scratch(int32_t rank, int32_t first, int32_t count);

/* Each returns the index of the step within its lane, for plan_emit_after. A span of no chunks
 * emits no step and returns -1. */
int32_t plan_emit_copy(plan_emitter_t *e, int lane, plan_span_t dst, plan_span_t src);
int32_t plan_emit_reduce(plan_emitter_t *e, int lane, plan_span_t dst, const plan_span_t sources[],
                         int32_t source_count);
/* Messages of a lane use the channel of the same number; plan_emit_*_on: another channel. */
int32_t plan_emit_send(plan_emitter_t *e, int lane, int32_t peer, plan_span_t src);
int32_t plan_emit_recv(plan_emitter_t *e, int lane, int32_t peer, plan_span_t dst);
int32_t plan_emit_send_on(plan_emitter_t *e, int lane, int32_t peer, int32_t channel,
                          plan_span_t src);
int32_t plan_emit_recv_on(plan_emitter_t *e, int lane, int32_t peer, int32_t channel,
                          plan_span_t dst);
int32_t plan_emit_signal(plan_emitter_t *e, int lane, int32_t peer);
int32_t plan_emit_wait(plan_emitter_t *e, int lane, int32_t peer);
int32_t plan_emit_after(plan_emitter_t *e, int lane, int32_t other_lane, int32_t step);

/* Copies this rank's INPUT chunks [first, first+count) to OUTPUT from chunk `to` on. Emits nothing
 * where an in-place program has them there already. */
int32_t plan_emit_input_to_output(plan_emitter_t *e, int lane, int32_t to, int32_t first,
                                  int32_t count);

#endif
