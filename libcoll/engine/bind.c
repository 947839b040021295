/*
 * One walk over the steps of every lane. Spans that a step pairs are cut at the same blocks, so
 * their pieces are of equal size, and each becomes an action of its own.
 */
#include "engine/bind.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define LIVENESS_STEPS_MAX 256 /* programs longer than that are not searched for later readers */
#define FETCH_BYTES_MIN 2048   /* of a message, from which on it is worth a device's call */
#define WINDOW_BYTES_MIN 4096  /* of SCRATCH: less has no time to leave any cache */

/* Where the walk is. */
typedef struct binder {
  engine_bound_t *bound;
  const engine_world_t *world;
  const plan_program_t *program;
  bool only_receives; /* the program moves nothing but what it receives */
  engine_place_t place;
  const plan_lane_t *lane;
  int channel;
  size_t step;
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
  bound->bases[bound->base_count] = (engine_base_t){rank, buffer};
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
  const engine_place_t *place = &b->place;
  size_t element_bytes = place->call->element_bytes;
  engine_piece_t piece = engine_span_piece(place, span, pieces, index);
  size_t shift = span->buffer == PLAN_SCRATCH ? 0 : place->pass.first;
  engine_operand_t operand = {.offset = (piece.start - shift) * element_bytes,
                              .bytes = piece.elements * element_bytes};
  COLL_TRY(add_base(bound, span->rank, span->buffer, &operand.base));
  COLL_TRY(base_grow((void **)&bound->operands, &bound->operand_capacity, bound->operand_count + 1,
                     sizeof *bound->operands, "a program's operands"));
  bound->operands[bound->operand_count++] = operand;
  action->operand_count++;
  return COLL_OK;
}

/* An action of the step at hand, not yet in the list. */
static engine_action_t begin_action(const binder_t *b, engine_action_kind_t kind) {
  return (engine_action_t){
      .kind = kind, .step = (uint32_t)b->step, .first = (uint32_t)b->bound->operand_count};
}

static engine_peer_t peer_of(const binder_t *b, int32_t rank) {
  transport_t *route = b->world->routes[rank];
  return (engine_peer_t){
      .rank = rank, .route = route, .port = route->ops->port(route, rank, b->channel)};
}

static coll_status_t add_action(binder_t *b, const engine_action_t *action) {
  engine_bound_t *bound = b->bound;
  COLL_TRY(base_grow((void **)&bound->actions, &bound->action_capacity, bound->action_count + 1,
                     sizeof *bound->actions, "a program's actions"));
  bound->actions[bound->action_count++] = *action;
  return COLL_OK;
}

/* ---- who reads what is stored ---------------------------------------------------------------*/

static bool overlap(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first < b->first + b->count &&
         b->first < a->first + a->count;
}

static bool covers(const plan_span_t *a, const plan_span_t *b) {
  return a->rank == b->rank && a->buffer == b->buffer && a->first <= b->first &&
         a->first + a->count >= b->first + b->count;
}

static bool reads(const plan_program_t *program, const plan_step_t *step, const plan_span_t *span) {
  switch (step->kind) {
    case PLAN_COPY: return overlap(&step->copy.src, span);
    case PLAN_SEND: return overlap(&step->send.src, span);
    case PLAN_REDUCE:
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        if (overlap(&program->sources[step->reduce.first_source + i], span)) return true;
      }
      return false;
    default: return false;
  }
}

static bool overwrites(const plan_step_t *step, const plan_span_t *span) {
  switch (step->kind) {
    case PLAN_COPY: return covers(&step->copy.dst, span);
    case PLAN_RECV: return covers(&step->recv.dst, span);
    case PLAN_REDUCE: return covers(&step->reduce.dst, span);
    default: return false;
  }
}

static bool is_read_later(const binder_t *b, size_t step, const plan_span_t *span) {
  for (; step < b->lane->count; step++) {
    if (reads(b->program, &b->lane->steps[step], span)) return true;
    if (overwrites(&b->lane->steps[step], span)) return false;
  }
  return false;
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

/* The spans of a copy or reduction: destinations first, the one the step itself names at [0]. */
typedef struct operation {
  engine_action_kind_t kind;
  const plan_span_t *dsts[DEVICE_DSTS_MAX];
  int32_t dst_count;
  const plan_span_t *sources;
  int32_t source_count;
  size_t end; /* step behind it */
} operation_t;

static const plan_span_t *operation_span(const operation_t *op, int32_t i) {
  return i < op->dst_count ? op->dsts[i] : &op->sources[i - op->dst_count];
}

static int32_t pieces_of(const binder_t *b, const operation_t *op) {
  const engine_place_t *place = &b->place;
  bool whole = true;
  for (int32_t i = 0; i < op->dst_count + op->source_count && whole; i++) {
    whole = engine_span_pieces(place, operation_span(op, i)) == 1;
  }
  return whole ? 1 : engine_span_blocks(place, op->dsts[0]);
}

/* How many of the destinations, from the first on, are in scratch: what goes there is fetched from
 * there at once. */
static int32_t kept_of(const operation_t *op) {
  int32_t kept = 0;
  while (kept < op->dst_count && op->dsts[kept]->buffer == PLAN_SCRATCH) kept++;
  return kept;
}

/* Whether what goes to the destinations that are not kept stays there unread, as far as is looked
 * for. What plans of messages store they may send on. */
static bool is_for_good(const binder_t *b, const operation_t *op, int32_t kept) {
  const plan_t *plan = b->place.plan;
  if (plan->reach != PLAN_REACH_OWN) return true;
  if (plan->lanes != 1 || b->lane->count > LIVENESS_STEPS_MAX) return false;
  for (int32_t d = kept; d < op->dst_count; d++) {
    if (is_read_later(b, op->end, op->dsts[d])) return false;
  }
  return true;
}

/* Of how many bytes of the call an action that stores `bytes` to each destination stores a part,
 * apart from those that are kept. */
static size_t whole_of(const binder_t *b, const operation_t *op, size_t bytes) {
  size_t in_pass = b->place.pass.count, in_call = b->place.call->count;
  int32_t kept = kept_of(op);
  if (kept == op->dst_count) return 0;
  if (in_pass == in_call || !is_for_good(b, op, kept)) return bytes;
  return bytes * (in_call / in_pass);
}

static coll_status_t add_operation(binder_t *b, const operation_t *op) {
  int32_t pieces = pieces_of(b, op);
  for (int32_t piece = 0; piece < pieces; piece++) {
    size_t elements = engine_span_piece(&b->place, op->dsts[0], pieces, piece).elements;
    if (elements == 0) continue;
    engine_action_t action = begin_action(b, op->kind);
    action.dst_count = (uint16_t)op->dst_count;
    action.elements = elements;
    action.bytes = elements * b->place.call->element_bytes;
    action.whole = whole_of(b, op, action.bytes);
    action.kept = kept_of(op);
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

/* The reduction at step `index`, with the copies of its result straight behind it. */
static operation_t reduction_at(const binder_t *b, size_t index) {
  const plan_step_t *step = &b->lane->steps[index];
  operation_t op = {.kind = ENGINE_REDUCE,
                    .dsts = {&step->reduce.dst},
                    .dst_count = 1,
                    .sources = &b->program->sources[step->reduce.first_source],
                    .source_count = step->reduce.source_count};
  assert(op.source_count <= DEVICE_SOURCES_MAX);
  for (size_t i = index + 1; i < b->lane->count && op.dst_count < DEVICE_DSTS_MAX; i++) {
    const plan_step_t *next = &b->lane->steps[i];
    if (next->kind != PLAN_COPY || !same_span(&next->copy.src, op.dsts[0])) break;
    op.dsts[op.dst_count++] = &next->copy.dst;
  }
  op.end = index + (size_t)op.dst_count;
  return op;
}

/* Returns how many steps it took. */
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

/* Before peers are told of what may have been stored in parts, where they reach into OUTPUT. */
static coll_status_t bind_settle(binder_t *b) {
  const engine_place_t *place = &b->place;
  if (place->plan->reach != PLAN_REACH_USER || place->pass.count == place->call->count) {
    return COLL_OK;
  }
  engine_action_t action = begin_action(b, ENGINE_STORE_FENCE);
  return add_action(b, &action);
}

/* ---- messages -------------------------------------------------------------------------------*/

/* Which of those that send, or receive, the action is once its pieces are known. */
static engine_action_kind_t message_kind(const binder_t *b, const engine_action_t *action) {
  bool plain = action->operand_count == 1 && !engine_call_is_uneven(b->place.call);
  if (action->kind == ENGINE_SEND) {
    return !plain ? ENGINE_SEND_PIECES : action->multicast ? ENGINE_MCAST_SEND : ENGINE_SEND;
  }
  if (action->multicast) return ENGINE_MCAST_RECV;
  if (action->operand_count != 1) return ENGINE_RECV_PIECES;
  bool fetched = action->bytes >= FETCH_BYTES_MIN || action->whole > action->bytes;
  return fetched && action->peer.route->peeks ? ENGINE_RECV_FETCH : ENGINE_RECV;
}

/* Who only receives waits for its sender, however large the call is: what counts is how soon lines
 * come, not what memory is spared by the way they are stored. */
static size_t whole_of_message(const binder_t *b, const plan_span_t *span, size_t bytes) {
  if (b->only_receives) return bytes;
  const operation_t op = {.dsts = {span}, .dst_count = 1, .end = b->step + 1};
  return whole_of(b, &op, bytes);
}

/* Both ends leave out messages that would be empty, but for the first between a pair that has its
 * count checked, and those of a call that has no elements at all: its ranks compare their calls. */
static coll_status_t bind_message(binder_t *b, engine_action_kind_t kind, int32_t peer,
                                  const plan_span_t *span) {
  const engine_place_t *place = &b->place;
  const engine_call_t *call = place->call;
  const engine_blocks_t *blocks =
      span->buffer == PLAN_INPUT ? &call->input_blocks : &call->output_blocks;
  engine_action_t action = begin_action(b, kind);
  int32_t pieces = engine_span_pieces(place, span);
  action.peer = peer_of(b, peer);
  action.multicast = place->plan->multicast;
  if (blocks->counts != NULL) action.pair_count = blocks->counts[span->first];
  for (int32_t i = 0; i < pieces; i++) {
    size_t elements = engine_span_piece(place, span, pieces, i).elements;
    if (elements == 0) continue;
    COLL_TRY(add_operand(b, &action, span, pieces, i));
    action.bytes += elements * call->element_bytes;
  }
  bool checked = call->count_per_pair ? place->pass.first == 0 : call->count == 0;
  if (action.bytes == 0 && !checked) return COLL_OK;
  if (kind == ENGINE_RECV) action.whole = whole_of_message(b, span, action.bytes);
  action.kind = message_kind(b, &action);
  return add_action(b, &action);
}

/* RECVs in a row, and the reduction behind them. */
typedef struct intake {
  size_t first, end; /* steps of the RECVs */
  operation_t op;
} intake_t;

static const plan_span_t *received(const binder_t *b, size_t step) {
  return &b->lane->steps[step].recv.dst;
}

/* Whether what the RECV at `step` brings is wanted by the reduction and by nobody else. */
static bool is_wanted_once(const binder_t *b, const intake_t *intake, size_t step) {
  const plan_span_t *span = received(b, step);
  const operation_t *op = &intake->op;
  int32_t wanted = 0;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (same_span(&op->sources[i], span)) {
      wanted++;
    } else if (overlap(&op->sources[i], span)) {
      return false;
    }
  }
  for (int32_t i = 0; i < op->dst_count; i++) {
    if (overlap(op->dsts[i], span)) return false;
  }
  return wanted > 0 && !is_read_later(b, op->end, span);
}

/* Whether the RECV's peer shows its messages in place, and has sent none of those behind it. */
static bool can_stay(const binder_t *b, const intake_t *intake, size_t step) {
  int32_t peer = b->lane->steps[step].recv.peer;
  for (size_t i = step + 1; i < intake->end; i++) {
    if (b->lane->steps[i].recv.peer == peer) return false;
  }
  return received(b, step)->buffer == PLAN_SCRATCH &&
         (b->place.plan->multicast || b->world->routes[peer]->peeks);
}

/* Whether what the RECVs bring can be reduced where the transport has it. A message that waits for
 * the others takes room of its FIFO, so the plan must do with less than all there is. */
static bool may_stay_messages(const binder_t *b, const intake_t *intake) {
  const plan_t *plan = b->place.plan;
  if (plan->reach != PLAN_REACH_OWN || plan->lanes != 1) return false;
  if (b->place.call->count == 0) return false; /* nothing to reduce, but messages to compare */
  if (intake->end - intake->first > 1 && plan->depth >= PLAN_DEPTH_MAX) return false;
  if (b->lane->count > LIVENESS_STEPS_MAX || pieces_of(b, &intake->op) != 1) return false;
  for (size_t step = intake->first; step < intake->end; step++) {
    if (!can_stay(b, intake, step) || !is_wanted_once(b, intake, step)) return false;
  }
  return true;
}

/* Stands for the base of an action's first message until the number of bases is known. */
#define BASE_MESSAGES UINT32_C(0x80000000)

static coll_status_t add_sender(engine_bound_t *bound, engine_peer_t sender) {
  size_t needed = bound->sender_count + 1;
  COLL_TRY(base_grow((void **)&bound->senders, &bound->sender_capacity, needed,
                     sizeof *bound->senders, "a program's senders"));
  bound->senders[bound->sender_count++] = sender;
  return COLL_OK;
}

/* The sources of the action just added that are the index-th message. */
static void point_at_message(const binder_t *b, const intake_t *intake, engine_action_t *action,
                             size_t index) {
  const operation_t *op = &intake->op;
  for (int32_t i = 0; i < op->source_count; i++) {
    if (!same_span(&op->sources[i], received(b, intake->first + index))) continue;
    engine_operand_t *operand = &b->bound->operands[action->first + (uint32_t)(op->dst_count + i)];
    operand->base = BASE_MESSAGES + (uint32_t)index;
    operand->offset = 0;
  }
}

static coll_status_t bind_intake(binder_t *b, const intake_t *intake) {
  engine_bound_t *bound = b->bound;
  size_t before = bound->action_count;
  COLL_TRY(add_operation(b, &intake->op));
  if (bound->action_count == before) return COLL_OK;
  engine_action_t *action = &bound->actions[before];
  action->multicast = b->place.plan->multicast;
  action->peer = peer_of(b, b->lane->steps[intake->first].recv.peer);
  action->senders = (uint32_t)bound->sender_count;
  for (size_t step = intake->first; step < intake->end; step++) {
    COLL_TRY(add_sender(bound, peer_of(b, b->lane->steps[step].recv.peer)));
    point_at_message(b, intake, action, step - intake->first);
    action->sender_count++;
  }
  return COLL_OK;
}

/* The longest row of RECVs up to a reduction, from the one at hand on, that can be read where they
 * lie; else the one at hand alone. *steps: how many it took. */
static coll_status_t bind_recv(binder_t *b, size_t *steps) {
  const plan_step_t *recv = &b->lane->steps[b->step];
  intake_t intake = {.first = b->step, .end = b->step};
  while (intake.end < b->lane->count && b->lane->steps[intake.end].kind == PLAN_RECV) intake.end++;
  *steps = 1;
  if (intake.end < b->lane->count && b->lane->steps[intake.end].kind == PLAN_REDUCE) {
    intake.op = reduction_at(b, intake.end);
    intake.op.kind = ENGINE_RECV_REDUCE;
    if (may_stay_messages(b, &intake)) {
      *steps = intake.op.end - intake.first;
      return bind_intake(b, &intake);
    }
  }
  return bind_message(b, ENGINE_RECV, recv->recv.peer, &recv->recv.dst);
}

/* The first send of a row of a multicast plan stands for all of them. */
static coll_status_t bind_send(binder_t *b, size_t *steps) {
  const plan_step_t *send = &b->lane->steps[b->step];
  bool multicast = b->place.plan->multicast;
  *steps = multicast ? (size_t)b->place.plan->shape.size - 1 : 1;
  COLL_TRY(bind_settle(b));
  return bind_message(b, ENGINE_SEND, send->send.peer, &send->send.src);
}

/* ---- all steps ------------------------------------------------------------------------------*/

static coll_status_t bind_order(binder_t *b) {
  const plan_step_t *step = &b->lane->steps[b->step];
  engine_action_t action = begin_action(b, ENGINE_AFTER);
  if (step->kind == PLAN_AFTER) {
    action.other = step->after.lane;
    action.after = (uint32_t)step->after.step;
  } else {
    bool signals = step->kind == PLAN_SIGNAL;
    if (signals) COLL_TRY(bind_settle(b));
    action.kind = signals ? ENGINE_SIGNAL : ENGINE_WAIT;
    action.peer = peer_of(b, signals ? step->signal.peer : step->wait.peer);
  }
  return add_action(b, &action);
}

/* *steps: how many of the lane's, from the one at hand on. */
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
    case PLAN_AFTER: return bind_order(b);
    case PLAN_STEP_KIND_COUNT: break;
  }
  return base_fail(COLL_ERROR_INTERNAL, "plan %s holds a step of unknown kind",
                   b->place.plan->algorithm);
}

/* Messages have addresses as bases do, behind theirs, so that a call finds all operands alike: as
 * many as some action reads at once, and surely no more than there are senders in all. */
static coll_status_t place_messages(engine_bound_t *bound) {
  for (size_t i = 0; i < bound->operand_count; i++) {
    uint32_t *base = &bound->operands[i].base;
    if (*base >= BASE_MESSAGES) *base += (uint32_t)bound->base_count - BASE_MESSAGES;
  }
  return base_grow((void **)&bound->addresses, &bound->address_capacity,
                   bound->base_count + bound->sender_count, sizeof *bound->addresses,
                   "a program's addresses");
}

/* Once there are no more to come, which may move them. */
static void point_at_operands(engine_bound_t *bound) {
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

/* By all blocks that the plan has in SCRATCH. What no peer looks at is best kept where it was; a
 * call of several passes fills it anyway; and counts that ranks do not know alike tell nothing. */
static void divide_scratch(engine_bound_t *bound, const engine_place_t *place, size_t room_bytes) {
  size_t parts = (size_t)place->plan->parts, chunks = (size_t)place->plan->scratch_chunks;
  size_t needed = (chunks + parts - 1) / parts * place->pass.count * place->call->element_bytes;
  bool shared = place->plan->reach == PLAN_REACH_SCRATCH;
  bool whole = place->pass.count == place->call->count && !engine_call_is_uneven(place->call);
  bound->windows = 1;
  bound->window_bytes = base_round_up(needed, WINDOW_BYTES_MIN);
  if (!shared || !whole || needed < WINDOW_BYTES_MIN) return;
  if (bound->window_bytes < room_bytes) {
    bound->windows = (uint32_t)(room_bytes / bound->window_bytes);
  }
}

/* What calls will go around. */
static void populate_scratch(const engine_bound_t *bound, const engine_world_t *world) {
  for (size_t i = ENGINE_BASES_OWN; i < bound->base_count; i++) {
    const engine_base_t *base = &bound->bases[i];
    if (base->buffer != PLAN_SCRATCH) continue;
    base_populate(world->views[base->rank].buffers[PLAN_SCRATCH], world->room.scratch_bytes);
  }
}

coll_status_t engine_bind(engine_bound_t *bound, const engine_world_t *world, const plan_t *plan,
                          const plan_program_t *program, const engine_call_t *call,
                          const engine_pass_t *pass) {
  binder_t b = {.bound = bound,
                .world = world,
                .program = program,
                .only_receives = only_receives(plan, program),
                .place = {.plan = plan, .call = call, .pass = *pass}};
  bound->plan = NULL;
  bound->base_count = bound->operand_count = bound->action_count = bound->sender_count = 0;
  COLL_TRY(add_own_bases(bound, world->rank));
  for (int lane = 0; lane < plan->lanes; lane++) {
    b.lane = &program->lanes[lane];
    b.channel = call->channel + lane;
    size_t steps, first = bound->action_count;
    for (b.step = 0; b.step < b.lane->count; b.step += steps) COLL_TRY(bind_step(&b, &steps));
    bound->lane_ends[lane] = bound->action_count;
    number_phases(bound->actions + first, bound->action_count - first);
  }
  point_at_operands(bound);
  COLL_TRY(place_messages(bound));
  divide_scratch(bound, &b.place, world->room.scratch_bytes);
  if (bound->windows > 1) populate_scratch(bound, world);
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
  free(bound->actions);
  *bound = (engine_bound_t){0};
}
