/*
 * The engine: carries out one rank's program of a plan for one call, as a state machine that never
 * blocks, sleeps or reads a clock. Whoever owns the thread advances it and decides how to wait.
 *
 * A large call is cut into passes over the same plan, so that every message fits a slot and scratch
 * fits its arena. A rank starts a pass when all its lanes have finished the one before; ranks are
 * not otherwise in step. A plan that cannot deadlock alone cannot in a row of passes either: the
 * ranks form a Kahn network, whose ability to finish does not depend on the schedule, and the
 * schedule that finishes each pass everywhere before the next is one of them.
 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include "base/ranks.h"
#include "engine/bind.h"

/* One call at a time; kept for the next, which finds its program bound. */
typedef struct engine_run {
  const engine_world_t *world;
  const engine_call_t *call;
  engine_bound_t bound;
  engine_pass_t pass;                                                /* under way */
  const engine_action_t *next[PLAN_LANES_MAX], *end[PLAN_LANES_MAX]; /* actions to do, per lane */
  uint32_t arrived; /* messages of the ENGINE_RECV_REDUCE at hand, from look to look */
  bool can_restart; /* the next call may be begun by engine_run_restart (lane.h) */
} engine_run_t;

/* Whether slots and scratch have room for the plan at all with elements of that size. */
bool engine_run_fits(const engine_world_t *world, const plan_t *plan, size_t element_bytes);

/* Everything given must stay as it is until the run is done. Requires engine_run_fits, a call with
 * count > 0 or count_per_pair or no buffers at all (barrier), and for PLAN_REACH_USER a handshake
 * that found all memory mappable. `run` is zeroed, or from an earlier call, whose work is used
 * again where plan, count and element size are the same and blocks are even. */
coll_status_t engine_run_begin(engine_run_t *run, const engine_world_t *world, const plan_t *plan,
                               const plan_program_t *program, const engine_call_t *call);

/* Frees what it keeps. */
void engine_run_free(engine_run_t *run);

/* Goes on as far as it can. *moved: at least one step was done. *done: the call is complete. Fails
 * with COLL_ERROR_MISMATCH where a peer turns out to be in another call, or as the transport did.
 */
coll_status_t engine_run_advance(engine_run_t *run, bool *moved, bool *done);

/* Where it stands while nothing moves: *place grows from pass to pass and wait to wait, and is
 * about the same on ranks that do alike; *missing: the ranks it needs news of to go on (bit r % 64
 * for rank r). */
void engine_run_standstill(const engine_run_t *run, uint32_t *place, uint64_t *missing);

/* Adds to a set of ranks those that the blocked lanes wait for: the run cannot go on unless one of
 * them does something. */
void engine_run_waits_for(const engine_run_t *run, base_ranks_t *ranks);

#endif
