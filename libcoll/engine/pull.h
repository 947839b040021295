/*
 * Actions that read peers' INPUT and OUTPUT: directly where the memory is mapped in this process,
 * else by the transport's get. Which of the two holds is known per buffer once the addresses are
 * exchanged, and may differ between the calls and the peers of one bound program.
 *
 * A reduction gets its operands block by block into a buffer that stays in the cache, and reduces
 * each block from there.
 */
#ifndef ENGINE_PULL_H
#define ENGINE_PULL_H

#include "base/ranks.h"
#include "engine/compute.h"

/* Allocates the buffer for operands that are not mapped, if the bound program has reductions that
 * pull. */
coll_status_t engine_pull_prepare(engine_bound_t *bound);

/* Copies from the peer's own address space by the transport's get. Not *done: as below. */
coll_status_t engine_pull_get(const engine_peer_t *peer, void *dst, uint64_t address, size_t bytes,
                              bool *done);

/* Whether memory that was read was still the peer's in this call: a rank that leaves a call because
 * of an error first aborts the communicator, or dies. */
bool engine_pull_is_here(transport_t *route, int peer);

/* Copies from a peer's buffer, or reduces operands of which some are in peers' buffers. Not *done:
 * a peer has exited or the communicator is aborted; the call is about to fail, and the destination
 * is unspecified. */
coll_status_t engine_pull_copy(const engine_run_t *run, const engine_action_t *action, bool *done);
coll_status_t engine_pull_reduce(const engine_run_t *run, const engine_action_t *action,
                                 bool *done);

/* Adds the ranks that such an action reads from: a read that is not done does not say which of them
 * has exited. */
void engine_pull_waits_for(const engine_run_t *run, const engine_action_t *action,
                           base_ranks_t *ranks);

#endif
