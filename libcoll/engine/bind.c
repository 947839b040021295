/*
 * Translates the steps of every lane in order: copies and reductions (bind_compute.h), messages
 * (bind_message.h), and here what orders lanes and ranks. What depends on all actions follows.
 */
#include "engine/bind.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/bind_compute.h"
#include "engine/bind_message.h"
#include "engine/pull.h"
#include "engine/windows.h"

static coll_status_t add_own_bases(engine_bound_t *bound, int rank) {
  uint32_t input, output;
  COLL_TRY(engine_binder_add_base(bound, rank, PLAN_INPUT, &input));
  COLL_TRY(engine_binder_add_base(bound, rank, PLAN_OUTPUT, &output));
  assert(input == ENGINE_BASE_INPUT && output == ENGINE_BASE_OUTPUT);
  return COLL_OK;
}

/* The other end of signals of the current lane. */
static engine_peer_t signal_peer_of(engine_binder_t *b, int32_t rank) {
  return engine_binder_peer(b, rank, (int32_t)(b->lane - b->program->lanes));
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

static coll_status_t bind_synchronization(engine_binder_t *b) {
  const plan_step_t *step = &b->lane->steps[b->step];
  engine_action_t action = engine_binder_begin(b, ENGINE_AFTER);
  if (step->kind == PLAN_AFTER) {
    action.other = step->after.lane;
    action.after = (uint32_t)step->after.step;
  } else {
    bool signals = step->kind == PLAN_SIGNAL;
    if (signals) COLL_TRY(engine_bind_store_fence(b));
    action.kind = signals ? ENGINE_SIGNAL : ENGINE_WAIT;
    action.peer = signal_peer_of(b, signals ? step->signal.peer : step->wait.peer);
  }
  return engine_binder_add_action(b, &action);
}

/* Binds the steps of the current action. */
static coll_status_t bind_action(engine_binder_t *b) {
  const plan_step_t *step = &b->lane->steps[b->step];
  switch (step->kind) {
    case PLAN_COPY: return engine_bind_copy(b);
    case PLAN_REDUCE: return engine_bind_reduce(b);
    case PLAN_SEND: return engine_bind_send(b);
    case PLAN_RECV: return engine_bind_recv(b);
    case PLAN_SIGNAL:
    case PLAN_WAIT:
    case PLAN_AFTER: return bind_synchronization(b);
    case PLAN_STEP_KIND_COUNT: break;
  }
  return base_fail(COLL_ERROR_INTERNAL, "plan %s holds a step of unknown kind",
                   b->layout.plan->algorithm);
}

static coll_status_t bind_lane(engine_binder_t *b, int32_t lane) {
  const engine_world_t *world = b->world;
  size_t first = b->bound->action_count;
  b->lane = &b->program->lanes[lane];
  COLL_TRY(engine_bind_offers(b));
  for (b->step = 0; b->step < b->lane->count; b->step = b->fused.end) {
    b->fused = plan_fuse(b->layout.plan, b->program, world->rank, lane, b->step, &b->can);
    COLL_TRY(bind_action(b));
  }
  COLL_TRY(engine_bind_awaits(b, first));
  b->bound->lane_ends[lane] = b->bound->action_count;
  return COLL_OK;
}

static bool peeks(const void *context, int32_t peer) {
  const engine_world_t *world = context;
  return world->routes[peer]->peeks;
}

/* Reductions that read peers' INPUT or OUTPUT may run block by block (pull.h). A call of no
 * elements has nothing to reduce: its empty messages are only compared. */
static plan_capabilities_t capabilities_of(const engine_world_t *world,
                                           const engine_layout_t *layout) {
  plan_capabilities_t can = plan_host_capabilities;
  can.peeks = layout->call->count > 0 ? peeks : NULL;
  can.context = world;
  for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
    can.splits[buffer] = engine_span_splits(layout, (plan_buffer_t)buffer);
  }
  return can;
}

/* Addresses of received messages follow those of the bases, so that all operands are looked up
 * alike. There are at most as many as senders in total. */
static coll_status_t add_message_addresses(engine_bound_t *bound) {
  for (size_t i = 0; i < bound->operand_count; i++) {
    uint32_t *base = &bound->operands[i].base;
    if (*base >= ENGINE_BASE_MESSAGES) *base += (uint32_t)bound->base_count - ENGINE_BASE_MESSAGES;
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

/* A large message counts whole: each pass adds its part, although the first has sent the address of
 * all of it. */
static size_t traffic_of(const engine_bound_t *bound, const engine_action_t *action,
                         const engine_world_t *world) {
  size_t bytes = 0;
  switch (action->kind) {
    case ENGINE_SEND:
    case ENGINE_SEND_LENT:
    case ENGINE_MCAST_SEND:
    case ENGINE_SEND_LARGE:
    case ENGINE_SEND_PIECES:
      if (action->multicast) return action->bytes * (size_t)(world->size - 1);
      return action->peer.rank == world->rank ? 0 : action->bytes;
    default: break;
  }
  for (int i = 0; i < action->operand_count; i++) {
    const engine_operand_t *operand = &action->operands[i];
    if (operand->base >= bound->base_count) continue; /* a message: its sender counts it */
    if (bound->bases[operand->base].rank != world->rank) bytes += operand->bytes;
  }
  return bytes;
}

static void sum_traffic(engine_bound_t *bound, const engine_world_t *world) {
  bound->traffic = 0;
  for (size_t i = 0; i < bound->action_count; i++) {
    bound->traffic += traffic_of(bound, &bound->actions[i], world);
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
  char why[200];
  snprintf(why, sizeof why, "%s", base_last_error());
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d: plan %s needs a channel that the transport cannot make: %s",
                   world->rank, plan->algorithm, why);
}

coll_status_t engine_bind(engine_bound_t *bound, const engine_world_t *world, const plan_t *plan,
                          const plan_program_t *program, const engine_call_t *call,
                          const engine_pass_t *pass) {
  engine_binder_t b = {.bound = bound,
                       .world = world,
                       .program = program,
                       .only_receives = only_receives(plan, program),
                       .layout = {.plan = plan, .call = call, .pass = *pass}};
  bound->plan = NULL;
  bound->base_count = bound->operand_count = bound->action_count = bound->sender_count = 0;
  COLL_TRY(add_own_bases(bound, world->rank));
  COLL_TRY(reserve_lanes(bound, (size_t)plan->lanes));
  b.can = capabilities_of(world, &b.layout);
  for (int lane = 0; lane < plan->lanes; lane++) {
    size_t first = bound->action_count;
    COLL_TRY(bind_lane(&b, lane));
    number_phases(bound->actions + first, bound->action_count - first);
  }
  if (b.lacks_port) return fail_channels(world, plan);
  set_operand_pointers(bound);
  COLL_TRY(add_message_addresses(bound));
  sum_traffic(bound, world);
  COLL_TRY(engine_pull_prepare(bound));
  engine_windows_divide(bound, &b.layout, world);
  bound->plan = plan;
  bound->program = program;
  bound->call_count = call->count;
  bound->element_bytes = call->element_bytes;
  bound->is_uneven = engine_call_is_uneven(call);
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
