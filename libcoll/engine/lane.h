/*
 * The loop over the actions of a lane. Each lane has a cursor; an action either completes or
 * changes nothing. Inline, so that the fast path (api/fastpath.h) runs from the API function to the
 * transport without function calls in between.
 */
#ifndef ENGINE_LANE_H
#define ENGINE_LANE_H

#include "engine/large.h"
#include "engine/mismatch.h"
#include "engine/pull.h"
#include "engine/put.h"

/* Sets the addresses of this rank's INPUT and OUTPUT to those of the current call. */
BASE_INLINE void engine_lane_set_own(engine_run_t *run, const void *input, void *output) {
  char **addresses = run->bound.addresses;
  addresses[ENGINE_BASE_INPUT] = (char *)(uintptr_t)input; /* INPUT is never written */
  addresses[ENGINE_BASE_OUTPUT] = output;
}

/* Sets the addresses of all ranks' SCRATCH to the window of this call, which is the same on every
 * rank. */
BASE_INLINE void engine_lane_set_scratch(engine_run_t *run, flight_call_t id) {
  engine_bound_t *bound = &run->bound;
  size_t begin = flight_call_number(id) % bound->windows * bound->window_bytes;
  for (size_t i = ENGINE_BASES_OWN; i < bound->base_count; i++) {
    const engine_base_t *base = &bound->bases[i];
    if (base->buffer != PLAN_SCRATCH) continue;
    bound->addresses[i] = run->world->views[base->rank].buffers[PLAN_SCRATCH] + begin;
  }
}

BASE_INLINE coll_status_t engine_lane_wait(const engine_run_t *run, const engine_action_t *action,
                                           bool *done) {
  const engine_peer_t *peer = &action->peer;
  flight_call_t found = {0};
  COLL_TRY(peer->route->ops->wait(peer->port, &found, done));
  if (*done && !flight_call_is(found, run->call->id)) {
    return engine_mismatch(run->world, run->call, run->call->id, peer->rank, found);
  }
  return COLL_OK;
}

/* Whether the other lane has completed the step. */
BASE_INLINE bool engine_lane_is_after(const engine_run_t *run, const engine_action_t *action) {
  engine_cursor_t other = engine_cursor_of(run, action->other);
  return other.next == other.end || other.next->step > action->after;
}

BASE_INLINE coll_status_t engine_lane_act(engine_run_t *run, const engine_action_t *action,
                                          bool *done) {
  const engine_peer_t *peer = &action->peer;
  *done = true;
  switch (action->kind) {
    case ENGINE_COPY: return engine_compute_copy(run, action);
    case ENGINE_REDUCE: return engine_compute_reduce(run, action);
    case ENGINE_PULL_COPY: return engine_pull_copy(run, action, done);
    case ENGINE_PULL_REDUCE: return engine_pull_reduce(run, action, done);
    case ENGINE_SEND: return engine_message_send(run, action, done);
    case ENGINE_SEND_LENT: return engine_message_send_lent(run, action, done);
    case ENGINE_MCAST_SEND: return engine_message_mcast_send(run, action, done);
    case ENGINE_SEND_LARGE: return engine_large_send(run, action, done);
    case ENGINE_AWAIT_READ: return engine_large_await(run, action, done);
    case ENGINE_OFFER: return engine_put_offer(run, action, done);
    case ENGINE_PUT: return engine_put_store(run, action, done);
    case ENGINE_RECV_LARGE: return engine_large_recv(run, action, done);
    case ENGINE_SEND_PIECES: return engine_message_send_pieces(run, action, done);
    case ENGINE_RECV: return engine_message_recv(run, action, done);
    case ENGINE_RECV_FETCH: return engine_message_recv_fetch(run, action, done);
    case ENGINE_RECV_PIECES: return engine_message_recv_pieces(run, action, done);
    case ENGINE_MCAST_RECV: return engine_message_mcast_recv(run, action, done);
    case ENGINE_RECV_REDUCE: return engine_message_recv_reduce(run, action, done);
    case ENGINE_STORE_FENCE: run->world->device->store_fence(); return COLL_OK;
    case ENGINE_SIGNAL: return peer->route->ops->signal(peer->port, &run->call->id, done);
    case ENGINE_WAIT: return engine_lane_wait(run, action, done);
    case ENGINE_AFTER: *done = engine_lane_is_after(run, action); return COLL_OK;
  }
  return COLL_OK;
}

/* Runs the actions of a lane of the run until one is blocked. polls: how often a blocked action is
 * retried. */
BASE_INLINE coll_status_t engine_lane_advance(engine_run_t *run, engine_cursor_t *lane, int polls) {
  const engine_action_t *action = lane->next, *end = lane->end;
  coll_status_t status = COLL_OK;
  while (action < end) {
    bool done;
    status = engine_lane_act(run, action, &done);
    if (status != COLL_OK) break;
    if (done) {
      action++;
    } else if (--polls <= 0) {
      break;
    }
  }
  lane->next = action;
  return status;
}

/* Counts what a pass has moved, once it is complete. */
BASE_INLINE void engine_lane_count(engine_run_t *run) {
  /* relaxed: a sum that orders nothing; the communicator's lock orders its writers */
  uint64_t before = atomic_load_explicit(&run->world->traffic, memory_order_relaxed);
  uint64_t after = before + run->bound.traffic;
  atomic_store_explicit(&run->world->traffic, after, memory_order_relaxed);
}

/* Begins a call that differs from the previous, completed one only in its buffers and identity,
 * which *run->call already holds, and advances it like engine_run_advance. call: equal to
 * run->call; the caller has just written it, so it need not be loaded again. Returns whether the
 * call is complete; if not, *status is COLL_OK or the error. Requires can_restart, which holds
 * after a call of one lane, one pass and even blocks whose plan accesses no peer's INPUT or
 * OUTPUT. */
BASE_INLINE bool engine_run_restart(engine_run_t *run, const engine_call_t *call,
                                    coll_status_t *status) {
  run->bound.calls++;
  run->first.next = run->bound.actions;
  engine_lane_set_own(run, call->input, call->output);
  if (run->bound.windows > 1) engine_lane_set_scratch(run, call->id);
  *status = engine_lane_advance(run, &run->first, run->world->polls);
  if (run->first.next != run->first.end) return false;
  engine_lane_count(run);
  return true;
}

#endif
