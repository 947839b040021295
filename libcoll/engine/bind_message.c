/*
 * A message is one action, whatever the number of its pieces. Messages that are received into
 * scratch only to be reduced become operands of the reduction (bind.h).
 */
#include "engine/bind_message.h"

#include "base/memory.h"
#include "engine/bind_compute.h"
#include "engine/large.h"
#include "engine/liveness.h"
#include "engine/put.h"

#define FETCH_BYTES_MIN 2048 /* smallest message for which device->fetch pays off */

/* A send of memory that the program overwrites cannot be read later: that of an alltoallv in place.
 */
static bool is_overwritten(const engine_binder_t *b, const engine_action_t *action) {
  return action->kind == ENGINE_SEND && b->program->in_place &&
         b->layout.plan->shape.collective == COLL_ALLTOALLV;
}

/* Whether the message of the span, over all passes, may be large (large.h). (A receiver of a large
 * message takes data too.) */
static bool is_large(const engine_binder_t *b, const engine_action_t *action) {
  const engine_call_t *call = b->layout.call;
  const plan_t *plan = b->layout.plan;
  if (!engine_call_may_be_large(call, plan) || is_overwritten(b, action)) return false;
  bool is_told_apart = action->bytes > sizeof(engine_offer_t) || b->layout.pass.first > 0;
  return action->operand_count == 1 && is_told_apart &&
         engine_bytes_may_be_large(plan, engine_large_bytes(call, action));
}

/* The kind of send or receive, once its pieces are known. */
static engine_action_kind_t message_kind(const engine_binder_t *b, const engine_action_t *action) {
  if (is_large(b, action)) {
    return action->kind == ENGINE_SEND ? ENGINE_SEND_LARGE : ENGINE_RECV_LARGE;
  }
  bool plain = action->operand_count == 1 && !engine_call_is_by_pair(b->layout.call);
  if (action->kind == ENGINE_SEND) {
    return !plain ? ENGINE_SEND_PIECES : action->multicast ? ENGINE_MCAST_SEND : ENGINE_SEND;
  }
  if (action->multicast) return ENGINE_MCAST_RECV;
  if (action->operand_count != 1) return ENGINE_RECV_PIECES;
  bool fetched = action->bytes >= FETCH_BYTES_MIN || action->nontemporal_hint > action->bytes;
  return fetched && engine_message_fetches(&action->peer, action->bytes) ? ENGINE_RECV_FETCH
                                                                         : ENGINE_RECV;
}

/* A rank that only receives waits for its sender even in large calls. So short latency matters more
 * than the memory traffic that nontemporal stores save, and the hint is the message alone. */
static size_t message_hint_of(const engine_binder_t *b, const plan_span_t *span, size_t bytes) {
  if (b->only_receives) return bytes;
  const engine_operation_t op = {.dsts = {span}, .dst_count = 1, .end = b->step + 1};
  return engine_operation_hint(b, &op, bytes);
}

/* The action of a message without its kind. */
static coll_status_t begin_message(engine_binder_t *b, engine_action_kind_t kind,
                                   engine_peer_t peer, const plan_span_t *span,
                                   engine_action_t *action) {
  const engine_layout_t *layout = &b->layout;
  const engine_call_t *call = layout->call;
  const engine_blocks_t *blocks =
      span->buffer == PLAN_INPUT ? &call->input_blocks : &call->output_blocks;
  int32_t pieces = engine_span_pieces(layout, span);
  *action = engine_binder_begin(b, kind);
  action->peer = peer;
  action->multicast = layout->plan->multicast;
  if (blocks->counts != NULL) action->pair_count = blocks->counts[span->first];
  for (int32_t i = 0; i < pieces; i++) {
    size_t elements = engine_span_piece(layout, span, pieces, i).elements;
    if (elements == 0) continue;
    COLL_TRY(engine_binder_add_operand(b, action, span, pieces, i));
    action->bytes += elements * call->element_bytes;
  }
  return COLL_OK;
}

/* Both ends leave out empty messages, with two exceptions: the first message of a pair that
 * compares counts, and all messages of a call of 0 elements, by which the ranks compare their
 * calls. */
static coll_status_t bind_message(engine_binder_t *b, engine_action_kind_t kind, engine_peer_t peer,
                                  const plan_span_t *span) {
  const engine_layout_t *layout = &b->layout;
  const engine_call_t *call = layout->call;
  engine_action_t action;
  COLL_TRY(begin_message(b, kind, peer, span, &action));
  bool checked = call->count_per_pair ? layout->pass.first == 0 : call->count == 0;
  if (action.bytes == 0 && !checked) return COLL_OK;
  if (kind == ENGINE_RECV) action.nontemporal_hint = message_hint_of(b, span, action.bytes);
  action.kind = message_kind(b, &action);
  if (action.kind == ENGINE_SEND_LARGE && engine_put_applies(b->world, layout->plan, &action)) {
    engine_action_t put = action;
    put.kind = ENGINE_PUT;
    COLL_TRY(engine_binder_add_action(b, &put));
  }
  return engine_binder_add_action(b, &action);
}

/* Adjacent RECVs and the reduction that follows them. */
typedef struct fused {
  size_t first, end; /* steps of the RECVs: [first, end) */
  engine_operation_t op;
} fused_recv_t;

static const plan_span_t *received(const engine_binder_t *b, size_t step) {
  return &b->lane->steps[step].recv.dst;
}

/* Whether the reduction reads the data of the RECV at `step`, and no other step does. */
static bool is_read_by_reduction_only(const engine_binder_t *b, const fused_recv_t *fused,
                                      size_t step) {
  const plan_span_t *span = received(b, step);
  const engine_operation_t *op = &fused->op;
  int32_t reads_found = 0;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (engine_spans_equal(&op->sources[i], span)) {
      reads_found++;
    } else if (engine_spans_overlap(&op->sources[i], span)) {
      return false;
    }
  }
  for (int32_t i = 0; i < op->dst_count; i++) {
    if (engine_spans_overlap(op->dsts[i], span)) return false;
  }
  return reads_found > 0 && !engine_is_read_later(b->program, b->lane, op->end, span);
}

/* Whether the message of the RECV can be read in the transport's buffer: the transport supports it,
 * and no later RECV of the group is from the same peer. */
static bool can_fuse_recv(const engine_binder_t *b, const fused_recv_t *fused, size_t step) {
  int32_t peer = b->lane->steps[step].recv.peer;
  for (size_t i = step + 1; i < fused->end; i++) {
    if (b->lane->steps[i].recv.peer == peer) return false;
  }
  return received(b, step)->buffer == PLAN_SCRATCH &&
         (b->layout.plan->multicast || b->world->routes[peer]->peeks);
}

/* Whether all messages of the RECVs can be read in the transport's buffers. A message that waits
 * for others occupies a FIFO slot, so with several RECVs the plan must need fewer slots than there
 * are. */
static bool can_fuse(const engine_binder_t *b, const fused_recv_t *fused) {
  const plan_t *plan = b->layout.plan;
  if (plan->reach != PLAN_REACH_OWN || plan->lanes != 1) return false;
  if (b->layout.call->count == 0)
    return false; /* nothing to reduce; the empty messages are only
                     compared */
  if (fused->end - fused->first > 1 && plan->depth >= TRANSPORT_DEPTH) return false;
  if (b->lane->count > ENGINE_LIVENESS_STEPS_MAX || engine_operation_pieces(b, &fused->op) != 1)
    return false;
  for (size_t step = fused->first; step < fused->end; step++) {
    if (!can_fuse_recv(b, fused, step) || !is_read_by_reduction_only(b, fused, step)) return false;
  }
  return true;
}

static coll_status_t add_sender(engine_bound_t *bound, engine_peer_t sender) {
  size_t needed = bound->sender_count + 1;
  COLL_TRY(base_grow((void **)&bound->senders, &bound->sender_capacity, needed,
                     sizeof *bound->senders, "a program's senders"));
  bound->senders[bound->sender_count++] = sender;
  return COLL_OK;
}

/* Makes the sources of the action that the index-th message provides read from that message. */
static void read_from_message(const engine_binder_t *b, const fused_recv_t *fused,
                              engine_action_t *action, size_t index) {
  const engine_operation_t *op = &fused->op;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (!engine_spans_equal(&op->sources[i], received(b, fused->first + index))) continue;
    engine_operand_t *operand = &b->bound->operands[action->first + (uint32_t)(op->dst_count + i)];
    operand->base = ENGINE_BASE_MESSAGES + (uint32_t)index;
    operand->offset = 0;
  }
}

static coll_status_t bind_fused_recv(engine_binder_t *b, const fused_recv_t *fused) {
  engine_bound_t *bound = b->bound;
  size_t before = bound->action_count;
  COLL_TRY(engine_bind_operation(b, &fused->op));
  if (bound->action_count == before) return COLL_OK;
  engine_action_t *action = &bound->actions[before];
  action->multicast = b->layout.plan->multicast;
  action->peer = engine_binder_sender(b, fused->first);
  action->senders = (uint32_t)bound->sender_count;
  for (size_t step = fused->first; step < fused->end; step++) {
    COLL_TRY(add_sender(bound, engine_binder_sender(b, step)));
    read_from_message(b, fused, action, step - fused->first);
    action->sender_count++;
  }
  return COLL_OK;
}

coll_status_t engine_bind_recv(engine_binder_t *b, size_t *steps) {
  const plan_step_t *recv = &b->lane->steps[b->step];
  fused_recv_t fused = {.first = b->step, .end = b->step};
  while (fused.end < b->lane->count && b->lane->steps[fused.end].kind == PLAN_RECV) fused.end++;
  *steps = 1;
  if (fused.end < b->lane->count && b->lane->steps[fused.end].kind == PLAN_REDUCE) {
    fused.op = engine_reduction_at(b, fused.end);
    fused.op.kind = ENGINE_RECV_REDUCE;
    if (can_fuse(b, &fused)) {
      *steps = fused.op.end - fused.first;
      return bind_fused_recv(b, &fused);
    }
  }
  return bind_message(b, ENGINE_RECV, engine_binder_sender(b, b->step), &recv->recv.dst);
}

coll_status_t engine_bind_send(engine_binder_t *b, size_t *steps) {
  const plan_step_t *send = &b->lane->steps[b->step];
  bool multicast = b->layout.plan->multicast;
  *steps = multicast ? (size_t)b->layout.plan->shape.size - 1 : 1;
  COLL_TRY(engine_bind_store_fence(b));
  engine_peer_t peer = engine_binder_peer(b, send->send.peer, send->send.channel);
  return bind_message(b, ENGINE_SEND, peer, &send->send.src);
}

static coll_status_t bind_offer(engine_binder_t *b) {
  const plan_step_t *recv = &b->lane->steps[b->step];
  engine_action_t action;
  COLL_TRY(
      begin_message(b, ENGINE_RECV, engine_binder_sender(b, b->step), &recv->recv.dst, &action));
  if (!is_large(b, &action) || !engine_put_applies(b->world, b->layout.plan, &action)) {
    return COLL_OK;
  }
  action.kind = ENGINE_OFFER;
  action.step = 0;
  return engine_binder_add_action(b, &action);
}

coll_status_t engine_bind_offers(engine_binder_t *b) {
  if (b->layout.plan->shape.collective != COLL_GATHERV || b->layout.pass.first > 0) return COLL_OK;
  for (b->step = 0; b->step < b->lane->count; b->step++) {
    if (b->lane->steps[b->step].kind == PLAN_RECV) COLL_TRY(bind_offer(b));
  }
  return COLL_OK;
}

coll_status_t engine_bind_awaits(engine_binder_t *b, size_t first) {
  size_t end = b->bound->action_count;
  for (size_t i = first; i < end; i++) {
    const engine_action_t *send = &b->bound->actions[i];
    if (send->kind != ENGINE_SEND_LARGE) continue;
    engine_action_t action = engine_binder_begin(b, ENGINE_AWAIT_READ);
    action.peer = send->peer;
    action.pair_count = send->pair_count;
    COLL_TRY(engine_binder_add_action(b, &action));
  }
  return COLL_OK;
}
