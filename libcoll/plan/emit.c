/*
 * Appends steps to growable arrays. The first failure is stored in the emitter.
 */
#include "plan/emit.h"

#include <assert.h>

#include "base/memory.h"

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

static int32_t append(plan_emitter_t *e, int lane, plan_step_t step) {
  assert(lane >= 0 && lane < e->plan->lanes);
  if (e->status != COLL_OK) return -1;
  plan_lane_t *steps = &e->program->lanes[lane];
  e->status = base_grow((void **)&steps->steps, &steps->capacity, steps->count + 1, sizeof step,
                        "plan steps");
  if (e->status != COLL_OK) return -1;
  steps->steps[steps->count] = step;
  return (int32_t)steps->count++;
}

int32_t plan_emit_copy(plan_emitter_t *e, int lane, plan_span_t dst, plan_span_t src) {
  assert(dst.count == src.count);
  if (dst.count == 0) return -1;
  return append(e, lane, (plan_step_t){.kind = PLAN_COPY, .copy = {.dst = dst, .src = src}});
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
  return append(
      e, lane,
      (plan_step_t){
          .kind = PLAN_REDUCE,
          .reduce = {.dst = dst, .first_source = (int32_t)first, .source_count = source_count}});
}

int32_t plan_emit_send_on(plan_emitter_t *e, int lane, int32_t peer, int32_t channel,
                          plan_span_t src) {
  if (src.count == 0) return -1;
  return append(
      e, lane,
      (plan_step_t){.kind = PLAN_SEND, .send = {.peer = peer, .channel = channel, .src = src}});
}

int32_t plan_emit_recv_on(plan_emitter_t *e, int lane, int32_t peer, int32_t channel,
                          plan_span_t dst) {
  if (dst.count == 0) return -1;
  return append(
      e, lane,
      (plan_step_t){.kind = PLAN_RECV, .recv = {.peer = peer, .channel = channel, .dst = dst}});
}

int32_t plan_emit_send(plan_emitter_t *e, int lane, int32_t peer, plan_span_t src) {
  return plan_emit_send_on(e, lane, peer, lane, src);
}

int32_t plan_emit_recv(plan_emitter_t *e, int lane, int32_t peer, plan_span_t dst) {
  return plan_emit_recv_on(e, lane, peer, lane, dst);
}

int32_t plan_emit_signal(plan_emitter_t *e, int lane, int32_t peer) {
  return append(e, lane, (plan_step_t){.kind = PLAN_SIGNAL, .signal = {.peer = peer}});
}

int32_t plan_emit_wait(plan_emitter_t *e, int lane, int32_t peer) {
  return append(e, lane, (plan_step_t){.kind = PLAN_WAIT, .wait = {.peer = peer}});
}

int32_t plan_emit_after(plan_emitter_t *e, int lane, int32_t other_lane, int32_t step) {
  return append(e, lane,
                (plan_step_t){.kind = PLAN_AFTER, .after = {.lane = other_lane, .step = step}});
}

int32_t plan_emit_input_to_output(plan_emitter_t *e, int lane, int32_t to, int32_t first,
                                  int32_t count) {
  if (e->program->in_place && plan_alias(e->plan, e->rank, first) == to) return -1;
  return plan_emit_copy(e, lane, plan_output(e, to, count), plan_input(e, first, count));
}
