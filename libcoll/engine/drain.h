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

/* Whether calls of the run's binding may have to wait for that. */
bool engine_drain_is_needed(const engine_run_t *run);

/* At the end of a pass: whether all that this and earlier passes of the binding have sent to each
 * peer is drained, or the call sends little to it. */
bool engine_drain_is_over(const engine_run_t *run);

/* Adds the ranks for which it is not over. */
void engine_drain_waits_for(const engine_run_t *run, base_ranks_t *ranks);

#endif
