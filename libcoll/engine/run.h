/*
 * The engine: executes one rank's program of a plan for one call, as a state machine that never
 * blocks, sleeps or reads a clock. The caller advances it and decides how to wait.
 *
 * A large call is divided into passes over the same plan, so that every message fits a slot and
 * scratch fits its arena. A rank starts a pass when all its lanes have finished the previous one;
 * ranks are not synchronized otherwise. If a plan is free of deadlock in one pass, it is in a
 * sequence of passes: the ranks form a Kahn network, whose termination does not depend on the
 * schedule, and one possible schedule finishes each pass on all ranks before the next.
 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include "base/ranks.h"
#include "engine/state.h"

/* Whether slots and scratch can hold the plan's chunks if each has one element of this size. */
bool engine_run_fits(const engine_world_t *world, const plan_t *plan, size_t element_bytes);

/* Begins a call. All arguments must stay unchanged until the run is done. Requires engine_run_fits
 * and, if the plan's reach exchanges addresses, an address exchange that found such a reach. The
 * call may have 0 elements: its ranks then exchange empty messages, which detects mismatched calls.
 * `run` is zeroed or from an earlier call, whose binding is reused if plan, count and element size
 * are the same and blocks are even. */
coll_status_t engine_run_begin(engine_run_t *run, engine_world_t *world, const plan_t *plan,
                               const plan_program_t *program, const engine_call_t *call);

/* Frees the memory of the binding. */
void engine_run_free(engine_run_t *run);

/* Advances the run until all lanes are blocked, or a pass of a call that takes turns is complete.
 * *moved: at least one action was completed. *done:
 * the call is complete. COLL_ERROR_MISMATCH if a peer is in a different call; other errors are
 * those of the transport. */
coll_status_t engine_run_advance(engine_run_t *run, bool *moved, bool *done);

/* A call has failed, and so has the communicator: no memory of its calls is read or written any
 * more, by peers or transports. */
void engine_run_stop(engine_run_t *run);

/* Describes a blocked run. *progress increases with each pass and each wait, and is about the same
 * on ranks that have executed the same steps. *missing: the ranks whose messages or signals it
 * waits for (bit r % 64 for rank r). */
void engine_run_standstill(const engine_run_t *run, uint32_t *progress, uint64_t *missing);

/* Adds the ranks that the blocked lanes wait for: the run cannot continue unless one of them
 * acts. */
void engine_run_waits_for(const engine_run_t *run, base_ranks_t *ranks);

#endif
