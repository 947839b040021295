/*
 * A message is one action, whatever the number of its pieces. Messages that are received into
 * scratch only to be reduced become operands of the reduction (bind.h).
 */
#include "engine/bind_message.h"

#include "base/alloc.h"
#include "engine/bind_compute.h"
#include "engine/large.h"
#include "engine/put.h"
#include "plan/liveness.h"

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

#define LENT_BYTES_MIN 16384 /* shorter messages are as well copied */

/* Whether the transport may read the message's memory again until the end of the call. */
static bool may_be_lent(const engine_binder_t *b, const engine_action_t *action) {
  const transport_port_t *port = action->peer.port;
  const plan_span_t *span = &b->lane->steps[b->step].send.src;
  if (action->operand_count != 1 || action->multicast || action->bytes < LENT_BYTES_MIN) {
    return false;
  }
  if (port == NULL || !port->transport->borrows) return false;
  int lane = (int)(b->lane - b->program->lanes);
  return plan_stays(b->layout.plan, b->program, lane, b->step, span);
}

/* The kind of send or receive, once its pieces are known. */
static engine_action_kind_t message_kind(const engine_binder_t *b, const engine_action_t *action) {
  if (is_large(b, action)) {
    return action->kind == ENGINE_SEND ? ENGINE_SEND_LARGE : ENGINE_RECV_LARGE;
  }
  bool plain = action->operand_count == 1 && !engine_call_is_by_pair(b->layout.call);
  if (action->kind == ENGINE_SEND) {
    if (!plain) return ENGINE_SEND_PIECES;
    return action->multicast ? ENGINE_MCAST_SEND : action->is_lent ? ENGINE_SEND_LENT : ENGINE_SEND;
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
  action.is_lent = kind == ENGINE_SEND && may_be_lent(b, &action);
  action.kind = message_kind(b, &action);
  if (action.kind == ENGINE_SEND_LARGE && engine_put_applies(b->world, layout->plan, &action)) {
    engine_action_t put = action;
    put.kind = ENGINE_PUT;
    COLL_TRY(engine_binder_add_action(b, &put));
  }
  return engine_binder_add_action(b, &action);
}

static coll_status_t add_sender(engine_bound_t *bound, engine_peer_t sender) {
  size_t needed = bound->sender_count + 1;
  COLL_TRY(base_grow((void **)&bound->senders, &bound->sender_capacity, needed,
                     sizeof *bound->senders, "a program's senders"));
  bound->senders[bound->sender_count++] = sender;
  return COLL_OK;
}

/* Makes the sources of the action that the index-th message provides read from that message. */
static void read_from_message(const engine_binder_t *b, const engine_operation_t *op,
                              engine_action_t *action, uint32_t index) {
  const plan_span_t *received = &b->lane->steps[b->fused.first + index].recv.dst;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (!plan_spans_equal(&op->sources[i], received)) continue;
    engine_operand_t *operand = &b->bound->operands[action->first + (uint32_t)(op->dst_count + i)];
    operand->base = ENGINE_BASE_MESSAGES + index;
    operand->offset = 0;
  }
}

/* RECVs whose messages the reduction behind them reads. */
static coll_status_t bind_fused_recv(engine_binder_t *b) {
  engine_operation_t op = engine_reduction(b);
  engine_bound_t *bound = b->bound;
  size_t before = bound->action_count;
  op.kind = ENGINE_RECV_REDUCE;
  COLL_TRY(engine_bind_operation(b, &op));
  if (bound->action_count == before) return COLL_OK;
  engine_action_t *action = &bound->actions[before];
  action->multicast = b->layout.plan->multicast;
  action->peer = engine_binder_sender(b, b->fused.first);
  action->senders = (uint32_t)bound->sender_count;
  for (uint32_t step = b->fused.first; step < b->fused.reduction; step++) {
    COLL_TRY(add_sender(bound, engine_binder_sender(b, step)));
    read_from_message(b, &op, action, step - b->fused.first);
    action->sender_count++;
  }
  return COLL_OK;
}

coll_status_t engine_bind_recv(engine_binder_t *b) {
  if (plan_fused_reads(&b->fused, b->step)) return bind_fused_recv(b);
  const plan_step_t *recv = &b->lane->steps[b->step];
  return bind_message(b, ENGINE_RECV, engine_binder_sender(b, b->step), &recv->recv.dst);
}

coll_status_t engine_bind_send(engine_binder_t *b) {
  const plan_step_t *send = &b->lane->steps[b->step];
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
