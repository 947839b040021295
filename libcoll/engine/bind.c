/*
 * Translates the steps of every lane in order. Spans that a step pairs are cut at the same block
 * boundaries, so their pieces have equal size, and each pair of pieces becomes one action.
 */
#include "engine/bind.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/large.h"
#include "engine/liveness.h"
#include "engine/pull.h"
#include "engine/windows.h"

#define FETCH_BYTES_MIN 2048 /* smallest message for which device->fetch pays off */

/* The state of the translation. */
typedef struct binder {
  engine_bound_t *bound;
  const engine_world_t *world;
  const plan_program_t *program;
  bool only_receives; /* the program only receives: no sends, copies or reductions */
  engine_layout_t layout;
  const plan_lane_t *lane;
  size_t step;
  bool lacks_port; /* a channel of the plan could not be made */
} binder_t;

/* ---- adding to the lists --------------------------------------------------------------------*/

static coll_status_t add_base(engine_bound_t *bound, int rank, plan_buffer_t buffer,
                              uint32_t *index) {
  for (size_t i = bound->base_count; i-- > 0;) {
    if (bound->bases[i].rank == rank && bound->bases[i].buffer == buffer) {
      *index = (uint32_t)i;
      return COLL_OK;
    }
  }
  size_t needed = bound->base_count + 1;
  COLL_TRY(base_grow((void **)&bound->bases, &bound->base_capacity, needed, sizeof *bound->bases,
                     "a program's buffers"));
  COLL_TRY(base_grow((void **)&bound->addresses, &bound->address_capacity, needed,
                     sizeof *bound->addresses, "a program's addresses"));
  bound->bases[bound->base_count] = (engine_base_t){.rank = rank, .buffer = buffer};
  *index = (uint32_t)bound->base_count++;
  return COLL_OK;
}

static coll_status_t add_own_bases(engine_bound_t *bound, int rank) {
  uint32_t input, output;
  COLL_TRY(add_base(bound, rank, PLAN_INPUT, &input));
  COLL_TRY(add_base(bound, rank, PLAN_OUTPUT, &output));
  assert(input == ENGINE_BASE_INPUT && output == ENGINE_BASE_OUTPUT);
  return COLL_OK;
}

static coll_status_t add_operand(binder_t *b, engine_action_t *action, const plan_span_t *span,
                                 int32_t pieces, int32_t index) {
  engine_bound_t *bound = b->bound;
  const engine_layout_t *layout = &b->layout;
  size_t element_bytes = layout->call->element_bytes;
  engine_piece_t piece = engine_span_piece(layout, span, pieces, index);
  size_t shift = span->buffer == PLAN_SCRATCH ? 0 : layout->pass.first;
  engine_operand_t operand = {.offset = (piece.start - shift) * element_bytes,
                              .bytes = piece.elements * element_bytes};
  COLL_TRY(add_base(bound, span->rank, span->buffer, &operand.base));
  COLL_TRY(base_grow((void **)&bound->operands, &bound->operand_capacity, bound->operand_count + 1,
                     sizeof *bound->operands, "a program's operands"));
  bound->operands[bound->operand_count++] = operand;
  action->operand_count++;
  return COLL_OK;
}

/* Returns an action for the current step, not yet in the list. */
static engine_action_t begin_action(const binder_t *b, engine_action_kind_t kind) {
  return (engine_action_t){
      .kind = kind, .step = (uint32_t)b->step, .first = (uint32_t)b->bound->operand_count};
}

/* channel: of the plan. A transport that cannot make the channel has no port: binding fails. */
static engine_peer_t peer_of(binder_t *b, int32_t rank, int32_t channel) {
  transport_t *route = b->world->routes[rank];
  int number = b->layout.call->channel + transport_channel_of(channel);
  engine_peer_t peer = {
      .rank = rank, .route = route, .port = route->ops->port(route, rank, number)};
  if (peer.port == NULL && number >= TRANSPORT_CHANNELS) b->lacks_port = true;
  return peer;
}

/* The other end of signals of the current lane. */
static engine_peer_t signal_peer_of(binder_t *b, int32_t rank) {
  return peer_of(b, rank, (int32_t)(b->lane - b->program->lanes));
}

static engine_peer_t sender_of(binder_t *b, size_t step) {
  const plan_step_t *recv = &b->lane->steps[step];
  return peer_of(b, recv->recv.peer, recv->recv.channel);
}

static coll_status_t add_action(binder_t *b, const engine_action_t *action) {
  engine_bound_t *bound = b->bound;
  COLL_TRY(base_grow((void **)&bound->actions, &bound->action_capacity, bound->action_count + 1,
                     sizeof *bound->actions, "a program's actions"));
  bound->actions[bound->action_count++] = *action;
  return COLL_OK;
}

static bool only_receives(const plan_t *plan, const plan_program_t *program) {
  for (int lane = 0; lane < plan->lanes; lane++) {
    const plan_lane_t *steps = &program->lanes[lane];
    for (size_t i = 0; i < steps->count; i++) {
      plan_step_kind_t kind = steps->steps[i].kind;
      if (kind == PLAN_SEND || kind == PLAN_COPY || kind == PLAN_REDUCE) return false;
    }
  }
  return true;
}

/* ---- copies and reductions ------------------------------------------------------------------*/

/* The spans of a copy or reduction: destinations first; [0] is the one that the step itself
 * names. */
typedef struct operation {
  engine_action_kind_t kind;
  const plan_span_t *dsts[DEVICE_DSTS_MAX];
  int32_t dst_count;
  const plan_span_t *sources;
  int32_t source_count;
  size_t end; /* the step after it */
} operation_t;

static const plan_span_t *operation_span(const operation_t *op, int32_t i) {
  return i < op->dst_count ? op->dsts[i] : &op->sources[i - op->dst_count];
}

static int32_t pieces_of(const binder_t *b, const operation_t *op) {
  const engine_layout_t *layout = &b->layout;
  bool whole = true;
  for (int32_t i = 0; i < op->dst_count + op->source_count && whole; i++) {
    whole = engine_span_pieces(layout, operation_span(op, i)) == 1;
  }
  return whole ? 1 : engine_span_blocks(layout, op->dsts[0]);
}

/* The number of leading destinations in SCRATCH. Their data is loaded again soon, so they should
 * stay in the cache. */
static int32_t cached_dsts_of(const operation_t *op) {
  int32_t count = 0;
  while (count < op->dst_count && op->dsts[count]->buffer == PLAN_SCRATCH) count++;
  return count;
}

/* Whether the program does not read the other destinations again, as far as it is searched. Plans
 * of messages may send stored data on. */
static bool is_not_read_again(const binder_t *b, const operation_t *op, int32_t cached_dsts) {
  const plan_t *plan = b->layout.plan;
  if (plan->reach != PLAN_REACH_OWN) return true;
  if (plan->lanes != 1 || b->lane->count > ENGINE_LIVENESS_STEPS_MAX) return false;
  for (int32_t d = cached_dsts; d < op->dst_count; d++) {
    if (engine_is_read_later(b->program, b->lane, op->end, op->dsts[d])) return false;
  }
  return true;
}

/* The hint for nontemporal stores (engine_action_t) of an action that stores `bytes` to each
 * destination: the bytes of the whole call if the data is not read again, else those of this
 * pass. */
static size_t hint_of(const binder_t *b, const operation_t *op, size_t bytes) {
  size_t in_pass = b->layout.pass.count, in_call = b->layout.call->count;
  int32_t cached_dsts = cached_dsts_of(op);
  if (cached_dsts == op->dst_count) return 0;
  if (in_pass == in_call || !is_not_read_again(b, op, cached_dsts)) return bytes;
  return bytes * (in_call / in_pass);
}

/* The peer whose INPUT or OUTPUT the operation reads in a plan that pulls; -1: none. */
static int32_t pulled_from(const binder_t *b, const plan_span_t sources[], int32_t count) {
  if (b->layout.plan->reach != PLAN_REACH_READ) return -1;
  for (int32_t i = 0; i < count; i++) {
    bool is_users = sources[i].buffer != PLAN_SCRATCH;
    if (is_users && sources[i].rank != b->world->rank) return sources[i].rank;
  }
  return -1;
}

static engine_action_t begin_operation(binder_t *b, const operation_t *op) {
  engine_action_t action = begin_action(b, op->kind);
  int32_t peer = pulled_from(b, op->sources, op->source_count);
  if (peer < 0) return action;
  action.kind = op->kind == ENGINE_COPY ? ENGINE_PULL_COPY : ENGINE_PULL_REDUCE;
  action.peer = peer_of(b, peer, 0);
  return action;
}

static coll_status_t add_operation(binder_t *b, const operation_t *op) {
  int32_t pieces = pieces_of(b, op);
  for (int32_t piece = 0; piece < pieces; piece++) {
    size_t elements = engine_span_piece(&b->layout, op->dsts[0], pieces, piece).elements;
    if (elements == 0) continue;
    engine_action_t action = begin_operation(b, op);
    action.dst_count = (uint16_t)op->dst_count;
    action.elements = elements;
    action.bytes = elements * b->layout.call->element_bytes;
    action.nontemporal_hint = hint_of(b, op, action.bytes);
    action.cached_dsts = cached_dsts_of(op);
    for (int32_t i = 0; i < op->dst_count + op->source_count; i++) {
      COLL_TRY(add_operand(b, &action, operation_span(op, i), pieces, piece));
    }
    COLL_TRY(add_action(b, &action));
  }
  return COLL_OK;
}

static bool same_span(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first == b->first &&
         a->count == b->count;
}

/* The reduction at step `index`, with the copies of its result that directly follow it. */
static operation_t reduction_at(const binder_t *b, size_t index) {
  const plan_step_t *step = &b->lane->steps[index];
  operation_t op = {.kind = ENGINE_REDUCE,
                    .dsts = {&step->reduce.dst},
                    .dst_count = 1,
                    .sources = &b->program->sources[step->reduce.first_source],
                    .source_count = step->reduce.source_count};
  assert(op.source_count <= DEVICE_SOURCES_MAX);
  op.end = index + 1;
  if (pulled_from(b, op.sources, op.source_count) >= 0) return op;
  for (size_t i = index + 1; i < b->lane->count && op.dst_count < DEVICE_DSTS_MAX; i++) {
    const plan_step_t *next = &b->lane->steps[i];
    if (next->kind != PLAN_COPY || !same_span(&next->copy.src, op.dsts[0])) break;
    op.dsts[op.dst_count++] = &next->copy.dst;
  }
  op.end = index + (size_t)op.dst_count;
  return op;
}

/* *steps: the number of steps that the action covers. */
static coll_status_t bind_reduce(binder_t *b, size_t *steps) {
  operation_t op = reduction_at(b, b->step);
  *steps = op.end - b->step;
  return add_operation(b, &op);
}

static coll_status_t bind_copy(binder_t *b) {
  const plan_step_t *step = &b->lane->steps[b->step];
  const operation_t op = {.kind = ENGINE_COPY,
                          .dsts = {&step->copy.dst},
                          .dst_count = 1,
                          .sources = &step->copy.src,
                          .source_count = 1,
                          .end = b->step + 1};
  return add_operation(b, &op);
}

/* Adds a store fence before peers are notified of data that may have been stored nontemporally,
 * where they access OUTPUT. */
static coll_status_t bind_store_fence(binder_t *b) {
  const engine_layout_t *layout = &b->layout;
  if (!plan_reach_exchanges(layout->plan->reach) || layout->pass.count == layout->call->count) {
    return COLL_OK;
  }
  engine_action_t action = begin_action(b, ENGINE_STORE_FENCE);
  return add_action(b, &action);
}

/* ---- messages -------------------------------------------------------------------------------*/

/* Whether the message of the span, over all passes, is large (large.h). A send of memory that the
 * program overwrites cannot be read later; such programs are in place. */
static bool is_large(const binder_t *b, const engine_action_t *action) {
  const engine_call_t *call = b->layout.call;
  if (!engine_call_may_be_large(call) || b->program->in_place) return false;
  size_t elements = engine_call_is_uneven(call) ? action->pair_count : call->count;
  bool is_told_apart = action->bytes > sizeof(transport_address_t) || b->layout.pass.first > 0;
  return action->operand_count == 1 && is_told_apart &&
         elements * call->element_bytes > ENGINE_LARGE_BYTES_MIN;
}

/* The kind of send or receive, once its pieces are known. */
static engine_action_kind_t message_kind(const binder_t *b, const engine_action_t *action) {
  if (is_large(b, action)) {
    return action->kind == ENGINE_SEND ? ENGINE_SEND_LARGE : ENGINE_RECV_LARGE;
  }
  bool plain = action->operand_count == 1 && !engine_call_is_uneven(b->layout.call);
  if (action->kind == ENGINE_SEND) {
    return !plain ? ENGINE_SEND_PIECES : action->multicast ? ENGINE_MCAST_SEND : ENGINE_SEND;
  }
  if (action->multicast) return ENGINE_MCAST_RECV;
  if (action->operand_count != 1) return ENGINE_RECV_PIECES;
  bool fetched = action->bytes >= FETCH_BYTES_MIN || action->nontemporal_hint > action->bytes;
  return fetched && action->peer.route->peeks ? ENGINE_RECV_FETCH : ENGINE_RECV;
}

/* A rank that only receives waits for its sender even in large calls. So short latency matters more
 * than the memory traffic that nontemporal stores save, and the hint is the message alone. */
static size_t message_hint_of(const binder_t *b, const plan_span_t *span, size_t bytes) {
  if (b->only_receives) return bytes;
  const operation_t op = {.dsts = {span}, .dst_count = 1, .end = b->step + 1};
  return hint_of(b, &op, bytes);
}

/* Both ends leave out empty messages, with two exceptions: the first message of a pair that
 * compares counts, and all messages of a call of 0 elements, by which the ranks compare their
 * calls. */
static coll_status_t bind_message(binder_t *b, engine_action_kind_t kind, engine_peer_t peer,
                                  const plan_span_t *span) {
  const engine_layout_t *layout = &b->layout;
  const engine_call_t *call = layout->call;
  const engine_blocks_t *blocks =
      span->buffer == PLAN_INPUT ? &call->input_blocks : &call->output_blocks;
  engine_action_t action = begin_action(b, kind);
  int32_t pieces = engine_span_pieces(layout, span);
  action.peer = peer;
  action.multicast = layout->plan->multicast;
  if (blocks->counts != NULL) action.pair_count = blocks->counts[span->first];
  for (int32_t i = 0; i < pieces; i++) {
    size_t elements = engine_span_piece(layout, span, pieces, i).elements;
    if (elements == 0) continue;
    COLL_TRY(add_operand(b, &action, span, pieces, i));
    action.bytes += elements * call->element_bytes;
  }
  bool checked = call->count_per_pair ? layout->pass.first == 0 : call->count == 0;
  if (action.bytes == 0 && !checked) return COLL_OK;
  if (kind == ENGINE_RECV) action.nontemporal_hint = message_hint_of(b, span, action.bytes);
  action.kind = message_kind(b, &action);
  return add_action(b, &action);
}

/* Adjacent RECVs and the reduction that follows them. */
typedef struct fused {
  size_t first, end; /* steps of the RECVs: [first, end) */
  operation_t op;
} fused_recv_t;

static const plan_span_t *received(const binder_t *b, size_t step) {
  return &b->lane->steps[step].recv.dst;
}

/* Whether the reduction reads the data of the RECV at `step`, and no other step does. */
static bool is_read_by_reduction_only(const binder_t *b, const fused_recv_t *fused, size_t step) {
  const plan_span_t *span = received(b, step);
  const operation_t *op = &fused->op;
  int32_t reads_found = 0;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (same_span(&op->sources[i], span)) {
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
static bool can_fuse_recv(const binder_t *b, const fused_recv_t *fused, size_t step) {
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
static bool can_fuse(const binder_t *b, const fused_recv_t *fused) {
  const plan_t *plan = b->layout.plan;
  if (plan->reach != PLAN_REACH_OWN || plan->lanes != 1) return false;
  if (b->layout.call->count == 0)
    return false; /* nothing to reduce; the empty messages are only
                     compared */
  if (fused->end - fused->first > 1 && plan->depth >= TRANSPORT_DEPTH) return false;
  if (b->lane->count > ENGINE_LIVENESS_STEPS_MAX || pieces_of(b, &fused->op) != 1) return false;
  for (size_t step = fused->first; step < fused->end; step++) {
    if (!can_fuse_recv(b, fused, step) || !is_read_by_reduction_only(b, fused, step)) return false;
  }
  return true;
}

/* Placeholder for the base of an action's first message until the number of bases is known. */
#define BASE_MESSAGES UINT32_C(0x80000000)

static coll_status_t add_sender(engine_bound_t *bound, engine_peer_t sender) {
  size_t needed = bound->sender_count + 1;
  COLL_TRY(base_grow((void **)&bound->senders, &bound->sender_capacity, needed,
                     sizeof *bound->senders, "a program's senders"));
  bound->senders[bound->sender_count++] = sender;
  return COLL_OK;
}

/* Makes the sources of the action that the index-th message provides read from that message. */
static void read_from_message(const binder_t *b, const fused_recv_t *fused, engine_action_t *action,
                              size_t index) {
  const operation_t *op = &fused->op;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (!same_span(&op->sources[i], received(b, fused->first + index))) continue;
    engine_operand_t *operand = &b->bound->operands[action->first + (uint32_t)(op->dst_count + i)];
    operand->base = BASE_MESSAGES + (uint32_t)index;
    operand->offset = 0;
  }
}

static coll_status_t bind_fused_recv(binder_t *b, const fused_recv_t *fused) {
  engine_bound_t *bound = b->bound;
  size_t before = bound->action_count;
  COLL_TRY(add_operation(b, &fused->op));
  if (bound->action_count == before) return COLL_OK;
  engine_action_t *action = &bound->actions[before];
  action->multicast = b->layout.plan->multicast;
  action->peer = sender_of(b, fused->first);
  action->senders = (uint32_t)bound->sender_count;
  for (size_t step = fused->first; step < fused->end; step++) {
    COLL_TRY(add_sender(bound, sender_of(b, step)));
    read_from_message(b, fused, action, step - fused->first);
    action->sender_count++;
  }
  return COLL_OK;
}

/* Fuses the adjacent RECVs from the current one on with the reduction that follows, if possible;
 * else binds the current RECV alone. *steps: the number of steps covered. */
static coll_status_t bind_recv(binder_t *b, size_t *steps) {
  const plan_step_t *recv = &b->lane->steps[b->step];
  fused_recv_t fused = {.first = b->step, .end = b->step};
  while (fused.end < b->lane->count && b->lane->steps[fused.end].kind == PLAN_RECV) fused.end++;
  *steps = 1;
  if (fused.end < b->lane->count && b->lane->steps[fused.end].kind == PLAN_REDUCE) {
    fused.op = reduction_at(b, fused.end);
    fused.op.kind = ENGINE_RECV_REDUCE;
    if (can_fuse(b, &fused)) {
      *steps = fused.op.end - fused.first;
      return bind_fused_recv(b, &fused);
    }
  }
  return bind_message(b, ENGINE_RECV, sender_of(b, b->step), &recv->recv.dst);
}

/* The action of the first send of a multicast row stands for the whole row. */
static coll_status_t bind_send(binder_t *b, size_t *steps) {
  const plan_step_t *send = &b->lane->steps[b->step];
  bool multicast = b->layout.plan->multicast;
  *steps = multicast ? (size_t)b->layout.plan->shape.size - 1 : 1;
  COLL_TRY(bind_store_fence(b));
  engine_peer_t peer = peer_of(b, send->send.peer, send->send.channel);
  return bind_message(b, ENGINE_SEND, peer, &send->send.src);
}

/* Ends the lane with a wait for the readers of its large messages. */
static coll_status_t bind_awaits(binder_t *b, size_t first) {
  size_t end = b->bound->action_count;
  for (size_t i = first; i < end; i++) {
    const engine_action_t *send = &b->bound->actions[i];
    if (send->kind != ENGINE_SEND_LARGE) continue;
    engine_action_t action = begin_action(b, ENGINE_AWAIT_READ);
    action.peer = send->peer;
    COLL_TRY(add_action(b, &action));
  }
  return COLL_OK;
}

/* ---- all steps ------------------------------------------------------------------------------*/

static coll_status_t bind_synchronization(binder_t *b) {
  const plan_step_t *step = &b->lane->steps[b->step];
  engine_action_t action = begin_action(b, ENGINE_AFTER);
  if (step->kind == PLAN_AFTER) {
    action.other = step->after.lane;
    action.after = (uint32_t)step->after.step;
  } else {
    bool signals = step->kind == PLAN_SIGNAL;
    if (signals) COLL_TRY(bind_store_fence(b));
    action.kind = signals ? ENGINE_SIGNAL : ENGINE_WAIT;
    action.peer = signal_peer_of(b, signals ? step->signal.peer : step->wait.peer);
  }
  return add_action(b, &action);
}

/* Binds the current step. *steps: the number of steps covered. */
static coll_status_t bind_step(binder_t *b, size_t *steps) {
  const plan_step_t *step = &b->lane->steps[b->step];
  *steps = 1;
  switch (step->kind) {
    case PLAN_COPY: return bind_copy(b);
    case PLAN_REDUCE: return bind_reduce(b, steps);
    case PLAN_SEND: return bind_send(b, steps);
    case PLAN_RECV: return bind_recv(b, steps);
    case PLAN_SIGNAL:
    case PLAN_WAIT:
    case PLAN_AFTER: return bind_synchronization(b);
    case PLAN_STEP_KIND_COUNT: break;
  }
  return base_fail(COLL_ERROR_INTERNAL, "plan %s holds a step of unknown kind",
                   b->layout.plan->algorithm);
}

/* Addresses of received messages follow those of the bases, so that all operands are looked up
 * alike. There are at most as many as senders in total. */
static coll_status_t add_message_addresses(engine_bound_t *bound) {
  for (size_t i = 0; i < bound->operand_count; i++) {
    uint32_t *base = &bound->operands[i].base;
    if (*base >= BASE_MESSAGES) *base += (uint32_t)bound->base_count - BASE_MESSAGES;
  }
  return base_grow((void **)&bound->addresses, &bound->address_capacity,
                   bound->base_count + bound->sender_count, sizeof *bound->addresses,
                   "a program's addresses");
}

/* Sets the operand pointers of the actions, after the array has stopped growing. */
static void set_operand_pointers(engine_bound_t *bound) {
  for (size_t i = 0; i < bound->action_count; i++) {
    engine_action_t *action = &bound->actions[i];
    if (action->operand_count > 0) action->operands = bound->operands + action->first;
  }
}

static void number_phases(engine_action_t actions[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    bool waited = i > 0 && engine_action_waits(&actions[i - 1]);
    actions[i].phase = (i == 0 ? 0 : actions[i - 1].phase);
    if (engine_action_waits(&actions[i]) && !waited) actions[i].phase++;
  }
}

static coll_status_t reserve_lanes(engine_bound_t *bound, size_t lanes) {
  COLL_TRY(base_grow((void **)&bound->lane_ends, &bound->lane_capacity, lanes,
                     sizeof *bound->lane_ends, "a program's lanes"));
  return base_grow((void **)&bound->cursors, &bound->cursor_capacity, lanes, sizeof *bound->cursors,
                   "a program's lanes");
}

static coll_status_t fail_channels(const engine_world_t *world, const plan_t *plan) {
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d: plan %s uses more channels between two ranks than the transport can "
                   "make for %d ranks",
                   world->rank, plan->algorithm, world->size);
}

coll_status_t engine_bind(engine_bound_t *bound, const engine_world_t *world, const plan_t *plan,
                          const plan_program_t *program, const engine_call_t *call,
                          const engine_pass_t *pass) {
  binder_t b = {.bound = bound,
                .world = world,
                .program = program,
                .only_receives = only_receives(plan, program),
                .layout = {.plan = plan, .call = call, .pass = *pass}};
  bound->plan = NULL;
  bound->base_count = bound->operand_count = bound->action_count = bound->sender_count = 0;
  COLL_TRY(add_own_bases(bound, world->rank));
  COLL_TRY(reserve_lanes(bound, (size_t)plan->lanes));
  for (int lane = 0; lane < plan->lanes; lane++) {
    b.lane = &program->lanes[lane];
    size_t steps, first = bound->action_count;
    for (b.step = 0; b.step < b.lane->count; b.step += steps) COLL_TRY(bind_step(&b, &steps));
    COLL_TRY(bind_awaits(&b, first));
    bound->lane_ends[lane] = bound->action_count;
    number_phases(bound->actions + first, bound->action_count - first);
  }
  if (b.lacks_port) return fail_channels(world, plan);
  set_operand_pointers(bound);
  COLL_TRY(add_message_addresses(bound));
  COLL_TRY(engine_pull_prepare(bound));
  engine_windows_divide(bound, &b.layout, world);
  bound->plan = plan;
  bound->program = program;
  bound->call_count = call->count;
  bound->element_bytes = call->element_bytes;
  bound->pass = *pass;
  return COLL_OK;
}

void engine_bound_free(engine_bound_t *bound) {
  free(bound->bases);
  free(bound->addresses);
  free(bound->operands);
  free(bound->senders);
  free(bound->pulled);
  free(bound->actions);
  free(bound->lane_ends);
  free(bound->cursors);
  *bound = (engine_bound_t){0};
}
