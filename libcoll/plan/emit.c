/*
 * Appends steps to growable arrays. The first failure is stored in the emitter.
 */
#include "plan/emit.h"

#include <assert.h>

#include "base/alloc.h"

static plan_span_t span(int32_t rank, plan_buffer_t buffer, int32_t first, int32_t count) {
  return (plan_span_t){.rank = rank, .buffer = buffer, .first = first, .count = count};
}

plan_span_t plan_input(const plan_emitter_t *e, int32_t first, int32_t count) {
  return span(e->rank, PLAN_INPUT, first, count);
}

plan_span_t plan_output(const plan_emitter_t *e, int32_t first, int32_t count) {
  return span(e->rank, PLAN_OUTPUT, first, count);
}

plan_span_t plan_scratch(const plan_emitter_t *e, int32_t first, int32_t count) {
  return span(e->rank, PLAN_SCRATCH, first, count);
}

plan_span_t plan_peer_input(int32_t rank, int32_t first, int32_t count) {
  return span(rank, PLAN_INPUT, first, count);
}

plan_span_t plan_peer_output(int32_t rank, int32_t first, int32_t count) {
  return span(rank, PLAN_OUTPUT, first, count);
}

plan_span_t plan_peer_scratch(int32_t rank, int32_t first, int32_t count) {
  return span(rank, PLAN_SCRATCH, first, count);
}

/* Adds a zeroed step of the kind, which the caller fills in. *number: its number. NULL and -1: the
 * emitter has failed. */
static plan_step_t *append(plan_emitter_t *e, int lane, plan_step_kind_t kind, int32_t *number) {
  assert(lane >= 0 && lane < e->plan->lanes);
  *number = -1;
  if (e->status != COLL_OK) return NULL;
  plan_lane_t *steps = &e->program->lanes[lane];
  if (steps->count == steps->capacity) {
    e->status = base_grow((void **)&steps->steps, &steps->capacity, steps->count + 1,
                          sizeof *steps->steps, "plan steps");
    if (e->status != COLL_OK) return NULL;
  }
  *number = (int32_t)steps->count++;
  plan_step_t *step = &steps->steps[*number];
  *step = (plan_step_t){.kind = kind};
  return step;
}

int32_t plan_emit_copy(plan_emitter_t *e, int lane, plan_span_t dst, plan_span_t src) {
  assert(dst.count == src.count);
  if (dst.count == 0) return -1;
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_COPY, &number);
  if (step == NULL) return -1;
  step->copy.dst = dst;
  step->copy.src = src;
  return number;
}

int32_t plan_emit_reduce(plan_emitter_t *e, int lane, plan_span_t dst, const plan_span_t sources[],
                         int32_t source_count) {
  assert(source_count >= 1);
  if (dst.count == 0) return -1;
  if (e->status != COLL_OK) return -1;
  plan_program_t *program = e->program;
  size_t first = program->source_count;
  e->status = base_grow((void **)&program->sources, &program->source_capacity,
                        first + (size_t)source_count, sizeof *sources, "reduce sources");
  if (e->status != COLL_OK) return -1;
  for (int32_t i = 0; i < source_count; i++) program->sources[first + (size_t)i] = sources[i];
  program->source_count += (size_t)source_count;
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_REDUCE, &number);
  if (step == NULL) return -1;
  step->reduce.dst = dst;
  step->reduce.first_source = (int32_t)first;
  step->reduce.source_count = source_count;
  return number;
}

int32_t plan_emit_send_on(plan_emitter_t *e, int lane, int32_t peer, int32_t channel,
                          plan_span_t src) {
  if (src.count == 0) return -1;
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_SEND, &number);
  if (step == NULL) return -1;
  step->send.peer = peer;
  step->send.channel = channel;
  step->send.src = src;
  return number;
}

int32_t plan_emit_recv_on(plan_emitter_t *e, int lane, int32_t peer, int32_t channel,
                          plan_span_t dst) {
  if (dst.count == 0) return -1;
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_RECV, &number);
  if (step == NULL) return -1;
  step->recv.peer = peer;
  step->recv.channel = channel;
  step->recv.dst = dst;
  return number;
}

int32_t plan_emit_send(plan_emitter_t *e, int lane, int32_t peer, plan_span_t src) {
  return plan_emit_send_on(e, lane, peer, lane, src);
}

int32_t plan_emit_recv(plan_emitter_t *e, int lane, int32_t peer, plan_span_t dst) {
  return plan_emit_recv_on(e, lane, peer, lane, dst);
}

int32_t plan_emit_signal(plan_emitter_t *e, int lane, int32_t peer) {
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_SIGNAL, &number);
  if (step != NULL) step->signal.peer = peer;
  return number;
}

int32_t plan_emit_wait(plan_emitter_t *e, int lane, int32_t peer) {
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_WAIT, &number);
  if (step != NULL) step->wait.peer = peer;
  return number;
}

int32_t plan_emit_after(plan_emitter_t *e, int lane, int32_t other_lane, int32_t other_step) {
  int32_t number;
  plan_step_t *step = append(e, lane, PLAN_AFTER, &number);
  if (step == NULL) return -1;
  step->after.lane = other_lane;
  step->after.step = other_step;
  return number;
}

int32_t plan_emit_input_to_output(plan_emitter_t *e, int lane, int32_t to, int32_t first,
                                  int32_t count) {
  if (e->program->in_place && plan_alias(e->plan, e->rank, first) == to) return -1;
  return plan_emit_copy(e, lane, plan_output(e, to, count), plan_input(e, first, count));
}
