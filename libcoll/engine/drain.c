/* No pass sends to a peer to which the first one, in which blocks are longest, does not. */
#include "engine/drain.h"

#include <stdlib.h>

#include "base/alloc.h"
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

/* Bytes of the action in all passes; of uneven blocks, which may end in an earlier pass, at most so
 * many. */
static size_t bytes_of(const engine_run_t *run, const engine_action_t *action) {
  const engine_call_t *call = run->call;
  size_t pass = run->pass.count;
  if (engine_call_is_by_pair(call)) return engine_large_bytes(call, action);
  if (pass == call->count) return action->bytes;
  return action->bytes * (call->count / pass) + action->bytes * (call->count % pass) / pass;
}

static coll_status_t add(engine_run_t *run, const engine_action_t *action) {
  COLL_TRY(base_grow((void **)&run->drains, &run->drain_capacity, run->drain_count + 1,
                     sizeof *run->drains, "a program's receivers"));
  run->drains[run->drain_count++] =
      (engine_drain_t){.peer = action->peer, .bytes = bytes_of(run, action)};
  return COLL_OK;
}

/* By rank, then by port. */
static int compare(const void *left, const void *right) {
  const engine_peer_t *a = &((const engine_drain_t *)left)->peer;
  const engine_peer_t *b = &((const engine_drain_t *)right)->peer;
  uintptr_t port_a = (uintptr_t)a->port, port_b = (uintptr_t)b->port;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (port_a > port_b) - (port_a < port_b);
}

/* Of what is sorted, keeps each port of the ranks that get much once. */
static void keep_long(engine_run_t *run) {
  engine_drain_t *drains = run->drains;
  size_t kept = 0;
  for (size_t first = 0, end; first < run->drain_count; first = end) {
    size_t bytes = 0;
    for (end = first; end < run->drain_count && drains[end].peer.rank == drains[first].peer.rank;) {
      bytes += drains[end++].bytes;
    }
    for (size_t i = first; i < end && bytes > TRANSPORT_P2P_BYTES; i++) {
      if (kept > 0 && drains[kept - 1].peer.port == drains[i].peer.port) continue;
      drains[kept++] = drains[i];
    }
  }
  run->drain_count = kept;
}

/* Short calls skip the search: those with uneven blocks bind each time. */
coll_status_t engine_drain_begin(engine_run_t *run) {
  bool is_whole = run->pass.count == run->call->count;
  run->drain_count = 0;
  if (is_whole && run->bound.traffic <= TRANSPORT_P2P_BYTES) return COLL_OK;
  for (size_t i = 0; i < run->bound.action_count; i++) {
    const engine_action_t *action = &run->bound.actions[i];
    if (is_send(action) && action->peer.port->transport->delays) COLL_TRY(add(run, action));
  }
  if (run->drain_count > 0) qsort(run->drains, run->drain_count, sizeof *run->drains, compare);
  keep_long(run);
  return COLL_OK;
}

bool engine_drain_is_over(const engine_run_t *run) {
  size_t i = 0;
  while (i < run->drain_count && engine_drain_is_over_for(&run->drains[i].peer)) i++;
  return i == run->drain_count;
}

void engine_drain_waits_for(const engine_run_t *run, base_ranks_t *ranks) {
  for (size_t i = 0; i < run->drain_count; i++) {
    const engine_peer_t *peer = &run->drains[i].peer;
    if (!engine_drain_is_over_for(peer)) base_ranks_add(ranks, peer->rank);
  }
}
