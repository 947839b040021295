/* The state of a run: the program that it executes and how far each lane has come. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "engine/bind.h"

/* Executes one call at a time. It is reused for the next call, whose program is then already
 * bound. */
typedef struct engine_run {
  const engine_world_t *world;
  const engine_call_t *call;
  engine_bound_t bound;
  engine_pass_t pass;                                                /* the current pass */
  const engine_action_t *next[PLAN_LANES_MAX], *end[PLAN_LANES_MAX]; /* the next action and the end,
                                                                        per lane */
  uint32_t messages_arrived; /* messages of the current ENGINE_RECV_REDUCE that have arrived */
  unsigned char *large;      /* [world->size]: state of large messages (large.h); NULL before the
                                first call that may have any */
  bool can_restart;          /* the next call may begin by engine_run_restart (lane.h) */
} engine_run_t;

#endif
