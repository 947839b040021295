/* Each lane has a cursor; an action either completes or leaves everything as it was. */
#include "engine/run.h"

#include <assert.h>
#include <string.h>

#include "engine/compute.h"
#include "engine/message.h"
#include "engine/tag.h"

/* Elements of a block per pass, and the grain of chunk boundaries. */
static size_t measure_pass(const engine_world_t *world, const plan_t *plan, size_t element_bytes,
                           size_t *grain) {
  const plan_load_t load = plan_load_of(plan);
  return plan_pass_most(&world->room, &load, element_bytes, grain);
}

bool engine_run_fits(const engine_world_t *world, const plan_t *plan, size_t element_bytes) {
  size_t grain;
  return measure_pass(world, plan, element_bytes, &grain) > 0;
}

/* ---- a pass ---------------------------------------------------------------------------------*/

/* This rank's INPUT and OUTPUT are the call's, so that several calls can be under way at once. */
static char *buffer_of(const engine_run_t *run, const engine_base_t *base) {
  const engine_world_t *world = run->world;
  if (base->rank != world->rank || base->buffer == PLAN_SCRATCH) {
    return world->views[base->rank].buffers[base->buffer];
  }
  if (base->buffer == PLAN_OUTPUT) return run->call->output;
  return (char *)(uintptr_t)run->call->input; /* never written: plans are proved not to */
}

static coll_status_t say_unmapped(const engine_run_t *run, const engine_base_t *base) {
  return base_fail(COLL_ERROR_SYSTEM, "rank %d: cannot map the %s buffer of rank %d",
                   run->world->rank, plan_buffer_name(base->buffer), base->rank);
}

static coll_status_t find_buffers(engine_run_t *run) {
  engine_bound_t *bound = run->bound;
  size_t shift = run->pass.first * run->call->element_bytes;
  const engine_base_t *base = bound->bases, *end = base + bound->base_count;
  for (char **address = bound->addresses; base < end; base++, address++) {
    char *buffer = buffer_of(run, base);
    if (buffer == NULL) return say_unmapped(run, base);
    *address = base->buffer == PLAN_SCRATCH ? buffer : buffer + shift;
  }
  return COLL_OK;
}

static void set_pass(engine_run_t *run, size_t first) {
  size_t left = run->call->count - first, most = run->bound->pass_most;
  run->pass.first = first;
  run->pass.count = left < most ? left : most;
}

static coll_status_t enter_pass(engine_run_t *run) {
  const engine_bound_t *bound = run->bound;
  run->next[0] = 0;
  for (int lane = 1; lane < bound->plan->lanes; lane++) {
    run->next[lane] = bound->lane_ends[lane - 1];
  }
  return find_buffers(run);
}

/* Blocks of uneven size end in different passes. */
static coll_status_t next_pass(engine_run_t *run) {
  engine_bound_t *bound = run->bound;
  set_pass(run, run->pass.first + run->pass.count);
  if (bound->pass.count != run->pass.count || run->call->count_per_pair) {
    COLL_TRY(engine_bind(bound, run->world, bound->plan, bound->program, run->call, &run->pass));
  }
  return enter_pass(run);
}

coll_status_t engine_run_begin(engine_run_t *run, engine_bound_t *bound,
                               const engine_world_t *world, const plan_t *plan,
                               const plan_program_t *program, const engine_call_t *call) {
  bool same = bound->plan == plan && bound->program == program &&
              bound->call_count == call->count && bound->element_bytes == call->element_bytes &&
              !call->count_per_pair;
  run->world = world;
  run->call = call;
  run->bound = bound;
  run->arrived = 0;
  run->pass.grain = bound->pass.grain;
  bound->calls = same ? bound->calls + 1 : 0;
  if (!same) {
    bound->pass_most = measure_pass(world, plan, call->element_bytes, &run->pass.grain);
    assert(bound->pass_most > 0);
  }
  set_pass(run, 0);
  if (!same || bound->pass.count != run->pass.count) {
    COLL_TRY(engine_bind(bound, world, plan, program, call, &run->pass));
  }
  return enter_pass(run);
}

/* ---- actions --------------------------------------------------------------------------------*/

static coll_status_t do_wait(const engine_run_t *run, const engine_action_t *action, int channel,
                             bool *done) {
  uint64_t tag = 0;
  COLL_TRY(action->route->ops->wait(action->route, action->peer, channel, &tag, done));
  if (*done && tag != 0 && tag != run->call->tag) {
    return engine_tag_mismatch(run->world->rank, run->call->tag, action->peer, tag);
  }
  return COLL_OK;
}

/* Whether the other lane has come past its step. */
static bool is_after(const engine_run_t *run, const engine_action_t *action) {
  const engine_bound_t *bound = run->bound;
  size_t next = run->next[action->peer];
  return next == bound->lane_ends[action->peer] || bound->actions[next].step > action->after;
}

static coll_status_t do_action(engine_run_t *run, const engine_action_t *action, int channel,
                               bool *done) {
  const engine_world_t *world = run->world;
  const engine_bound_t *bound = run->bound;
  const engine_call_t *call = run->call;
  *done = true;
  switch (action->kind) {
    case ENGINE_COPY: return engine_compute_copy(world, bound, action);
    case ENGINE_REDUCE: return engine_compute_reduce(world, bound, call, action, NULL);
    case ENGINE_SEND: return engine_message_send(world, bound, call, action, channel, done);
    case ENGINE_POST: return engine_message_post(world, bound, call, action, done);
    case ENGINE_RECV: return engine_message_recv(world, bound, call, action, channel, done);
    case ENGINE_RECV_REDUCE:
      return engine_message_recv_reduce(world, bound, call, action, channel, &run->arrived, done);
    case ENGINE_SIGNAL:
      return action->route->ops->signal(action->route, action->peer, channel, call->tag);
    case ENGINE_WAIT: return do_wait(run, action, channel, done);
    case ENGINE_AFTER: *done = is_after(run, action); return COLL_OK;
  }
  return COLL_OK;
}

/* One sweep: every lane as far as it goes. */
static coll_status_t sweep(engine_run_t *run, bool *moved, bool *pass_done) {
  const engine_bound_t *bound = run->bound;
  *pass_done = true;
  for (int lane = 0; lane < bound->plan->lanes; lane++) {
    size_t end = bound->lane_ends[lane];
    int looks = bound->plan->lanes == 1 ? run->world->looks : 1;
    while (run->next[lane] < end) {
      bool done;
      COLL_TRY(do_action(run, &bound->actions[run->next[lane]], run->call->channel + lane, &done));
      if (done) {
        run->next[lane]++;
        *moved = true;
      } else if (--looks <= 0) {
        break;
      }
    }
    *pass_done = *pass_done && run->next[lane] == end;
  }
  return COLL_OK;
}

coll_status_t engine_run_advance(engine_run_t *run, bool *moved, bool *done) {
  const engine_pass_t *pass = &run->pass;
  *moved = false;
  *done = false;
  for (;;) {
    bool pass_done, swept = false;
    COLL_TRY(sweep(run, &swept, &pass_done));
    *moved = *moved || swept || pass_done;
    if (pass_done && pass->first + pass->count >= run->call->count) {
      *done = true;
      return COLL_OK;
    }
    if (pass_done) {
      COLL_TRY(next_pass(run));
    } else if (!swept) {
      return COLL_OK;
    }
  }
}

/* ---- standing still -------------------------------------------------------------------------*/

#define PHASE_BITS 12 /* of a place */

/* The ranks that the action waits for: its senders or its peer. */
static int peers_of(const engine_run_t *run, const engine_action_t *action, const int32_t **peers) {
  bool many = action->kind == ENGINE_RECV_REDUCE;
  *peers = many ? &run->bound->senders[action->senders] : &action->peer;
  return many ? action->sender_count : 1;
}

/* Whether the peer has sent what the action waits for, as far as can be told without taking it. */
static bool has_news(const engine_action_t *action, int32_t peer, int channel) {
  transport_t *route = action->route;
  if (action->kind == ENGINE_WAIT) return route->ops->signaled(route, peer, channel);
  return engine_message_is_here(action, peer, channel);
}

/* Of the first waits in a row of the lane. */
static uint64_t missing_of(const engine_run_t *run, int lane) {
  const engine_bound_t *bound = run->bound;
  int channel = run->call->channel + lane;
  uint64_t missing = 0, seen = 0;
  for (size_t i = run->next[lane]; i < bound->lane_ends[lane]; i++) {
    const engine_action_t *action = &bound->actions[i];
    if (!engine_action_waits(action)) break;
    const int32_t *peers;
    int count = peers_of(run, action, &peers);
    for (int p = 0; p < count; p++) {
      uint64_t bit = UINT64_C(1) << peers[p] % 64;
      if ((seen & bit) == 0 && !has_news(action, peers[p], channel)) missing |= bit;
      seen |= bit;
    }
  }
  return missing;
}

void engine_run_standstill(const engine_run_t *run, uint32_t *place, uint64_t *missing) {
  const engine_bound_t *bound = run->bound;
  const uint32_t phase_most = (1u << PHASE_BITS) - 1;
  size_t passes = 1 + run->pass.first / bound->pass_most;
  uint32_t phase = 0;
  *missing = 0;
  for (int lane = 0; lane < bound->plan->lanes; lane++) {
    if (run->next[lane] == bound->lane_ends[lane]) continue;
    const engine_action_t *action = &bound->actions[run->next[lane]];
    if (action->phase > phase) phase = action->phase;
    *missing |= missing_of(run, lane);
  }
  *place = (uint32_t)(passes << PHASE_BITS) | (phase < phase_most ? phase : phase_most);
}

/* The first that the blocked action waits for. */
static int32_t waited_of(const engine_run_t *run, const engine_action_t *action, int channel) {
  const int32_t *peers;
  int count = peers_of(run, action, &peers), at = 0;
  while (at + 1 < count && has_news(action, peers[at], channel)) at++;
  return peers[at];
}

int engine_run_waits_for(const engine_run_t *run, int peers[PLAN_LANES_MAX]) {
  const engine_bound_t *bound = run->bound;
  int count = 0;
  for (int lane = 0; lane < bound->plan->lanes; lane++) {
    if (run->next[lane] == bound->lane_ends[lane]) continue;
    const engine_action_t *action = &bound->actions[run->next[lane]];
    if (action->route == NULL) continue;
    peers[count++] = waited_of(run, action, run->call->channel + lane);
  }
  return count;
}
