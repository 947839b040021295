/* The actions of a pass show to whom the call sends, and how much in all passes like it. */
#include "engine/drain.h"

#include "engine/large.h"

static bool is_send(const engine_action_t *action) {
  switch (action->kind) {
    case ENGINE_SEND:
    case ENGINE_SEND_LENT:
    case ENGINE_SEND_LARGE:
    case ENGINE_SEND_PIECES: return !action->multicast && action->peer.port != NULL;
    default: return false;
  }
}

/* Bytes of the action in all passes; of uneven blocks, which may have ended in an earlier pass,
 * those of the longest. */
static size_t bytes_of(const engine_run_t *run, const engine_action_t *action) {
  const engine_call_t *call = run->call;
  if (engine_call_is_by_pair(call)) return engine_large_bytes(call, action);
  if (engine_call_is_uneven(call)) return call->count * call->element_bytes;
  return run->pass.count > 0 ? action->bytes * (call->count / run->pass.count) : action->bytes;
}

/* Whether the call has sent so much by the port that it may wait for the receiver. */
static bool is_long(const engine_run_t *run, const transport_port_t *port) {
  size_t bytes = 0;
  for (size_t i = 0; i < run->bound.action_count; i++) {
    const engine_action_t *action = &run->bound.actions[i];
    if (is_send(action) && action->peer.port == port) bytes += bytes_of(run, action);
  }
  return bytes > TRANSPORT_P2P_BYTES;
}

static bool is_over(const engine_run_t *run, const engine_action_t *action) {
  const engine_peer_t *peer = &action->peer;
  if (!is_send(action) || peer->route->ops->drained(peer->port)) return true;
  return !is_long(run, peer->port);
}

/* Whether the call is too short for any peer. */
static bool is_short(const engine_run_t *run) {
  bool whole = run->pass.count == run->call->count && !engine_call_is_uneven(run->call);
  return whole && run->bound.traffic <= TRANSPORT_P2P_BYTES;
}

bool engine_drain_is_needed(const engine_run_t *run) {
  if (is_short(run)) return false;
  for (size_t i = 0; i < run->bound.action_count; i++) {
    const engine_action_t *action = &run->bound.actions[i];
    if (is_send(action) && action->peer.port->transport->delays) return true;
  }
  return false;
}

bool engine_drain_is_over(const engine_run_t *run) {
  if (is_short(run)) return true;
  for (size_t i = 0; i < run->bound.action_count; i++) {
    if (!is_over(run, &run->bound.actions[i])) return false;
  }
  return true;
}

void engine_drain_waits_for(const engine_run_t *run, base_ranks_t *ranks) {
  for (size_t i = 0; i < run->bound.action_count; i++) {
    const engine_action_t *action = &run->bound.actions[i];
    if (!is_over(run, action)) base_ranks_add(ranks, action->peer.rank);
  }
}
