/* Passes, sweeps over the lanes, and the queries about a blocked run. The loop over a lane's
 * actions is in lane.h. */
#include "engine/run.h"

#include <assert.h>
#include <stdlib.h>

#include "base/inline.h"
#include "engine/drain.h"
#include "engine/lane.h"

/* Elements of a block per pass, and the grain of chunk boundaries. */
static size_t measure_pass(const engine_world_t *world, const plan_t *plan,
                           const engine_call_t *call, size_t *grain) {
  const plan_load_t load = plan_load_of(plan);
  plan_room_t room = world->room;
  if (call->slot_bytes > 0) room.slot_bytes = call->slot_bytes;
  return plan_pass_of(&room, &load, call->element_bytes, call->count, grain);
}

bool engine_run_fits(const engine_world_t *world, const plan_t *plan, size_t element_bytes) {
  const plan_load_t load = plan_load_of(plan);
  size_t grain;
  return plan_pass_max(&world->room, &load, element_bytes, &grain) > 0;
}

/* ---- a pass ---------------------------------------------------------------------------------*/

BASE_COLD static coll_status_t fail_unmapped(const engine_run_t *run, const engine_base_t *base) {
  return base_fail(COLL_ERROR_SYSTEM, "rank %d: cannot map the %s buffer of rank %d",
                   run->world->rank, plan_buffer_name(base->buffer), base->rank);
}

/* NULL (a buffer that this rank does not have) stays NULL. */
static char *shifted(const void *buffer, size_t shift) {
  return buffer == NULL ? NULL : (char *)(uintptr_t)buffer + shift;
}

static coll_status_t set_peer_addresses(engine_run_t *run, size_t shift) {
  const engine_bound_t *bound = &run->bound;
  for (size_t i = ENGINE_BASES_OWN; i < bound->base_count; i++) {
    engine_base_t *base = &bound->bases[i];
    if (base->buffer == PLAN_SCRATCH) continue;
    const engine_view_t *view = &run->world->views[base->rank];
    if (view->buffers[base->buffer] == NULL) return fail_unmapped(run, base);
    base->is_remote = view->is_remote[base->buffer];
    bound->addresses[i] = view->buffers[base->buffer] + shift;
  }
  return COLL_OK;
}

static void set_pass(engine_run_t *run, size_t first) {
  size_t left = run->call->count - first, most = run->bound.pass_max;
  run->pass.first = first;
  run->pass.count = left < most ? left : most;
}

BASE_INLINE void start_lanes(engine_run_t *run) {
  const engine_bound_t *bound = &run->bound;
  const engine_action_t *next = bound->actions;
  for (int lane = 0; lane < bound->plan->lanes; lane++) {
    const engine_action_t *end = bound->actions + bound->lane_ends[lane];
    *engine_cursor_at(run, lane) = (engine_cursor_t){.next = next, .end = end};
    next = end;
  }
}

static bool lends(const engine_bound_t *bound) {
  bool any = false;
  for (size_t i = 0; i < bound->action_count; i++) any = any || bound->actions[i].is_lent;
  return any;
}

/* Whether the call has none of what engine_run_restart does not handle: several lanes, several
 * passes, peers' user buffers, uneven blocks, large messages, memory that is lent, messages whose
 * sending a call waits for. */
static bool is_restartable(const engine_run_t *run) {
  const plan_t *plan = run->bound.plan;
  return plan->lanes == 1 && !plan_reach_exchanges(plan->reach) &&
         run->pass.count == run->call->count && !engine_call_is_uneven(run->call) &&
         !engine_call_may_be_large(run->call, plan) && !lends(&run->bound) && run->drain_count == 0;
}

static coll_status_t enter_pass(engine_run_t *run) {
  size_t shift = run->pass.first * run->call->element_bytes;
  start_lanes(run);
  engine_lane_set_own(run, shifted(run->call->input, shift), shifted(run->call->output, shift));
  engine_lane_set_scratch(run, run->call->id);
  return set_peer_addresses(run, shift);
}

/* A single window of scratch has the same address in every call. */
BASE_INLINE coll_status_t enter_first_pass(engine_run_t *run) {
  start_lanes(run);
  engine_lane_set_own(run, run->call->input, run->call->output);
  if (run->bound.windows > 1) engine_lane_set_scratch(run, run->call->id);
  return plan_reach_exchanges(run->bound.plan->reach) ? set_peer_addresses(run, 0) : COLL_OK;
}

/* Uneven blocks end in different passes, so each pass is bound again. */
BASE_APART static coll_status_t next_pass(engine_run_t *run) {
  engine_bound_t *bound = &run->bound;
  set_pass(run, run->pass.first + run->pass.count);
  if (bound->pass.count != run->pass.count || engine_call_is_uneven(run->call)) {
    COLL_TRY(engine_bind(bound, run->world, bound->plan, bound->program, run->call, &run->pass));
  }
  return enter_pass(run);
}

static bool is_bound_for(const engine_bound_t *bound, const plan_t *plan,
                         const plan_program_t *program, const engine_call_t *call) {
  return bound->plan == plan && bound->program == program && bound->call_count == call->count &&
         bound->element_bytes == call->element_bytes && !bound->is_uneven &&
         !engine_call_is_uneven(call);
}

/* Begins a call for which the program is not bound. */
BASE_COLD static coll_status_t bind_first(engine_run_t *run, const plan_t *plan,
                                          const plan_program_t *program) {
  engine_bound_t *bound = &run->bound;
  bound->pass_max = measure_pass(run->world, plan, run->call, &run->pass.grain);
  assert(bound->pass_max > 0);
  set_pass(run, 0);
  bound->calls = 0;
  COLL_TRY(engine_bind(bound, run->world, plan, program, run->call, &run->pass));
  COLL_TRY(engine_drain_begin(run));
  run->can_restart = is_restartable(run);
  return enter_pass(run);
}

coll_status_t engine_run_begin(engine_run_t *run, engine_world_t *world, const plan_t *plan,
                               const plan_program_t *program, const engine_call_t *call) {
  engine_bound_t *bound = &run->bound;
  run->world = world;
  run->call = call;
  run->messages_arrived = 0;
  if (engine_call_may_be_large(call, plan)) COLL_TRY(engine_large_begin(run));
  if (!is_bound_for(bound, plan, program, call)) return bind_first(run, plan, program);
  run->pass.grain = bound->pass.grain;
  set_pass(run, 0);
  if (bound->pass.count != run->pass.count) return bind_first(run, plan, program);
  bound->calls++;
  return enter_first_pass(run);
}

void engine_run_free(engine_run_t *run) {
  engine_bound_free(&run->bound);
  free(run->large);
  free(run->drains);
  run->large = NULL;
  run->drains = NULL;
  run->drain_count = run->drain_capacity = 0;
}

/* ---- progress ---------------------------------------------------------------------------------*/

/* Advances every lane until it is blocked. With a single lane, a blocked action is polled
 * repeatedly. */
static coll_status_t sweep(engine_run_t *run, bool *moved, bool *pass_done) {
  int lanes = run->bound.plan->lanes, polls = lanes > 1 ? 1 : run->world->polls;
  *pass_done = true;
  for (int lane = 0; lane < lanes; lane++) {
    engine_cursor_t *cursor = engine_cursor_at(run, lane);
    const engine_action_t *before = cursor->next;
    COLL_TRY(engine_lane_advance(run, cursor, polls));
    if (cursor->next != before) *moved = true;
    if (cursor->next < cursor->end) *pass_done = false;
  }
  return COLL_OK;
}

static coll_status_t advance(engine_run_t *run, bool *moved, bool *done) {
  for (;;) {
    bool pass_done, swept = false;
    COLL_TRY(sweep(run, &swept, &pass_done));
    if (pass_done) engine_lane_count(run);
    if (pass_done && run->pass.first + run->pass.count >= run->call->count) {
      *moved = true;
      *done = true;
      return COLL_OK;
    }
    if (!pass_done && !swept) return COLL_OK;
    *moved = true;
    if (!pass_done) continue;
    COLL_TRY(next_pass(run));
    if (run->call->takes_turns) return COLL_OK;
  }
}

coll_status_t engine_run_advance(engine_run_t *run, bool *moved, bool *done) {
  *moved = false;
  *done = false;
  coll_status_t status = advance(run, moved, done);
  /* the caller, or another thread, may next act on the data as stored */
  bool in_parts = run->pass.count < run->call->count;
  if (in_parts && (*moved || status != COLL_OK)) run->world->device->store_fence();
  return status;
}

void engine_world_return_lent(engine_world_t *world) {
  for (int peer = 0; peer < world->size; peer++) {
    transport_t *route = world->routes[peer];
    if (peer == 0 || route != world->routes[peer - 1]) route->ops->release(route);
  }
  world->lends = false;
}

void engine_run_stop(engine_run_t *run) {
  const engine_world_t *world = run->world;
  engine_large_stop(run);
  engine_world_return_lent(run->world);
  for (int peer = 0; peer < world->size; peer++) {
    transport_t *route = world->routes[peer];
    if (peer == 0 || route != world->routes[peer - 1]) route->ops->cancel(route);
  }
}

/* ---- blocked runs ---------------------------------------------------------------------------*/

#define PHASE_BITS 12 /* low bits of the progress value, which count waits */

/* The peers that the action waits for. */
static int peers_of(const engine_run_t *run, const engine_action_t *action,
                    const engine_peer_t **peers) {
  bool many = action->kind == ENGINE_RECV_REDUCE;
  *peers = many ? &run->bound.senders[action->senders] : &action->peer;
  return many ? action->sender_count : 1;
}

/* Whether the message or signal of the peer has arrived, as far as can be checked without receiving
 * it. */
static bool has_arrived(const engine_run_t *run, const engine_action_t *action,
                        const engine_peer_t *peer) {
  if (action->kind == ENGINE_AWAIT_READ && !engine_large_is_awaited(run, action)) return true;
  if (action->kind == ENGINE_AWAIT_READ) return peer->route->ops->signaled(peer->port);
  if (action->kind == ENGINE_WAIT) return peer->route->ops->signaled(peer->port);
  return engine_message_is_here(action, peer);
}

/* The ranks whose messages or signals the lane's current group of adjacent waits lacks. */
static uint64_t missing_ranks_of(const engine_run_t *run, int lane) {
  uint64_t missing = 0, seen = 0;
  engine_cursor_t cursor = engine_cursor_of(run, lane);
  for (const engine_action_t *action = cursor.next; action < cursor.end; action++) {
    if (!engine_action_waits(action)) break;
    const engine_peer_t *peers;
    int count = peers_of(run, action, &peers);
    for (int p = 0; p < count; p++) {
      uint64_t bit = UINT64_C(1) << peers[p].rank % 64;
      if ((seen & bit) == 0 && !has_arrived(run, action, &peers[p])) missing |= bit;
      seen |= bit;
    }
  }
  return missing;
}

void engine_run_standstill(const engine_run_t *run, uint32_t *progress, uint64_t *missing) {
  const engine_bound_t *bound = &run->bound;
  const uint32_t phase_max = (1u << PHASE_BITS) - 1;
  size_t passes = 1 + run->pass.first / bound->pass_max;
  uint32_t phase = 0;
  *missing = 0;
  for (int lane = 0; lane < bound->plan->lanes; lane++) {
    engine_cursor_t cursor = engine_cursor_of(run, lane);
    if (cursor.next == cursor.end) continue;
    const engine_action_t *action = cursor.next;
    if (action->phase > phase) phase = action->phase;
    *missing |= missing_ranks_of(run, lane);
  }
  *progress = (uint32_t)(passes << PHASE_BITS) | (phase < phase_max ? phase : phase_max);
}

/* The first rank that the blocked action waits for. */
static int32_t awaited_rank(const engine_run_t *run, const engine_action_t *action) {
  const engine_peer_t *peers;
  int count = peers_of(run, action, &peers), at = 0;
  while (at + 1 < count && has_arrived(run, action, &peers[at])) at++;
  return peers[at].rank;
}

void engine_run_waits_for(const engine_run_t *run, base_ranks_t *ranks) {
  const engine_bound_t *bound = &run->bound;
  for (int lane = 0; lane < bound->plan->lanes; lane++) {
    engine_cursor_t cursor = engine_cursor_of(run, lane);
    if (cursor.next == cursor.end) continue;
    const engine_action_t *action = cursor.next;
    if (action->peer.route == NULL) continue;
    if (action->kind == ENGINE_PULL_COPY || action->kind == ENGINE_PULL_REDUCE) {
      engine_pull_waits_for(run, action, ranks);
    } else if (action->multicast && !engine_action_waits(action)) { /* blocked until all peers have
                                                                received an earlier message */
      base_ranks_add_all_but(ranks, run->world->rank);
    } else {
      base_ranks_add(ranks, awaited_rank(run, action));
    }
  }
}
