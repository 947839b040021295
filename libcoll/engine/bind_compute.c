/*
 * Spans that a step pairs are cut at the same block boundaries, so their pieces have equal size,
 * and each pair of pieces becomes one action.
 */
#include "engine/bind_compute.h"

#include <assert.h>

#include "plan/liveness.h"

static const plan_span_t *operation_span(const engine_operation_t *op, int32_t i) {
  return i < op->dst_count ? op->dsts[i] : &op->sources[i - op->dst_count];
}

int32_t engine_operation_pieces(const engine_binder_t *b, const engine_operation_t *op) {
  const engine_layout_t *layout = &b->layout;
  bool whole = true;
  for (int32_t i = 0; i < op->dst_count + op->source_count && whole; i++) {
    whole = engine_span_pieces(layout, operation_span(op, i)) == 1;
  }
  return whole ? 1 : engine_span_blocks(layout, op->dsts[0]);
}

/* The number of leading destinations in SCRATCH. Their data is loaded again soon, so they should
 * stay in the cache. */
static int32_t cached_dsts_of(const engine_operation_t *op) {
  int32_t count = 0;
  while (count < op->dst_count && op->dsts[count]->buffer == PLAN_SCRATCH) count++;
  return count;
}

/* Whether the program does not read the other destinations again, as far as it is searched. Plans
 * of messages may send stored data on. */
static bool is_not_read_again(const engine_binder_t *b, const engine_operation_t *op,
                              int32_t cached_dsts) {
  const plan_t *plan = b->layout.plan;
  if (plan->reach != PLAN_REACH_OWN) return true;
  if (plan->lanes != 1 || b->lane->count > PLAN_LIVENESS_STEPS_MAX) return false;
  for (int32_t d = cached_dsts; d < op->dst_count; d++) {
    if (plan_is_read_later(b->program, b->lane, op->end, op->dsts[d])) return false;
  }
  return true;
}

size_t engine_operation_hint(const engine_binder_t *b, const engine_operation_t *op, size_t bytes) {
  size_t in_pass = b->layout.pass.count, in_call = b->layout.call->count;
  int32_t cached_dsts = cached_dsts_of(op);
  if (cached_dsts == op->dst_count) return 0;
  if (in_pass == in_call || !is_not_read_again(b, op, cached_dsts)) return bytes;
  return bytes * (in_call / in_pass);
}

/* The peer whose INPUT or OUTPUT the operation reads in a plan that pulls; -1: none. */
static int32_t pulled_from(const engine_binder_t *b, const plan_span_t sources[], int32_t count) {
  if (b->layout.plan->reach != PLAN_REACH_READ) return -1;
  for (int32_t i = 0; i < count; i++) {
    bool is_users = sources[i].buffer != PLAN_SCRATCH;
    if (is_users && sources[i].rank != b->world->rank) return sources[i].rank;
  }
  return -1;
}

static engine_action_t begin_operation(engine_binder_t *b, const engine_operation_t *op) {
  engine_action_t action = engine_binder_begin(b, op->kind);
  int32_t peer = pulled_from(b, op->sources, op->source_count);
  if (peer < 0) return action;
  action.kind = op->kind == ENGINE_COPY ? ENGINE_PULL_COPY : ENGINE_PULL_REDUCE;
  action.peer = engine_binder_peer(b, peer, 0);
  return action;
}

coll_status_t engine_bind_operation(engine_binder_t *b, const engine_operation_t *op) {
  int32_t pieces = engine_operation_pieces(b, op);
  for (int32_t piece = 0; piece < pieces; piece++) {
    size_t elements = engine_span_piece(&b->layout, op->dsts[0], pieces, piece).elements;
    if (elements == 0) continue;
    engine_action_t action = begin_operation(b, op);
    action.dst_count = (uint16_t)op->dst_count;
    action.elements = elements;
    action.bytes = elements * b->layout.call->element_bytes;
    action.nontemporal_hint = engine_operation_hint(b, op, action.bytes);
    action.cached_dsts = cached_dsts_of(op);
    for (int32_t i = 0; i < op->dst_count + op->source_count; i++) {
      COLL_TRY(engine_binder_add_operand(b, &action, operation_span(op, i), pieces, piece));
    }
    COLL_TRY(engine_binder_add_action(b, &action));
  }
  return COLL_OK;
}

engine_operation_t engine_reduction(const engine_binder_t *b) {
  const plan_step_t *steps = b->lane->steps, *reduction = &steps[b->fused.reduction];
  engine_operation_t op = {.kind = ENGINE_REDUCE,
                           .dsts = {&reduction->reduce.dst},
                           .dst_count = 1,
                           .sources = &b->program->sources[reduction->reduce.first_source],
                           .source_count = reduction->reduce.source_count,
                           .end = b->fused.end};
  assert(op.source_count <= DEVICE_SOURCES_MAX);
  for (size_t i = b->fused.reduction + 1; i < b->fused.end; i++) {
    op.dsts[op.dst_count++] = &steps[i].copy.dst;
  }
  return op;
}

coll_status_t engine_bind_reduce(engine_binder_t *b) {
  const engine_operation_t op = engine_reduction(b);
  return engine_bind_operation(b, &op);
}

coll_status_t engine_bind_copy(engine_binder_t *b) {
  const plan_step_t *step = &b->lane->steps[b->step];
  const engine_operation_t op = {.kind = ENGINE_COPY,
                                 .dsts = {&step->copy.dst},
                                 .dst_count = 1,
                                 .sources = &step->copy.src,
                                 .source_count = 1,
                                 .end = b->step + 1};
  return engine_bind_operation(b, &op);
}

coll_status_t engine_bind_store_fence(engine_binder_t *b) {
  const engine_layout_t *layout = &b->layout;
  if (!plan_reach_exchanges(layout->plan->reach) || layout->pass.count == layout->call->count) {
    return COLL_OK;
  }
  engine_action_t action = engine_binder_begin(b, ENGINE_STORE_FENCE);
  return engine_binder_add_action(b, &action);
}
