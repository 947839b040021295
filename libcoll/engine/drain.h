/*
 * The end of a call that has sent long messages between hosts. What the system has not accepted of
 * them moves only while this rank makes calls, so that their receiver would wait for its next call;
 * and a copy of what the receiver does not have yet costs more than the wait for most of it
 * (drained of transport/ops.h). A call that has sent no more than TRANSPORT_P2P_BYTES to a peer
 * does not wait for it (coll.h).
 */
#ifndef ENGINE_DRAIN_H
#define ENGINE_DRAIN_H

#include "base/ranks.h"
#include "engine/state.h"

/* Finds the ports to wait for, if any, of calls of the binding, whose first pass is bound.
 * COLL_ERROR_MEMORY. */
coll_status_t engine_drain_begin(engine_run_t *run);

/* After the last pass: whether all that the call has sent by these ports is drained. */
bool engine_drain_is_over(const engine_run_t *run);

/* The same for one of them. */
static inline bool engine_drain_is_over_for(const engine_peer_t *peer) {
  return peer->route->ops->drained(peer->port);
}

/* Adds the ranks for which it is not over. */
void engine_drain_waits_for(const engine_run_t *run, base_ranks_t *ranks);

#endif
