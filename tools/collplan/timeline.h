/*
 * The time of each step if every rank runs every step as early as possible: the steps of all lanes,
 * the partner of each message and signal, and times in units that the caller chooses.
 */
#ifndef COLLPLAN_TIMELINE_H
#define COLLPLAN_TIMELINE_H

#include "sim/sim.h"

typedef struct timeline_step {
  const plan_step_t *step;
  int32_t rank, lane, index;
  int64_t start, end;
  size_t partner; /* the other end of a message or signal, or SIM_NONE */
} timeline_step_t;

/* The duration of a step, and the latency between a send and its receive. */
typedef struct timeline_cost {
  int64_t step, hop;
} timeline_cost_t;

typedef struct timeline {
  const plan_t *plan;
  timeline_step_t *steps; /* by rank, lane, index */
  size_t count;
  int64_t end; /* of the last step */
} timeline_t;

/* COLL_ERROR_INVALID when the plan deadlocks. The plan must outlive the timeline. */
coll_status_t timeline_create(const plan_t *plan, timeline_cost_t cost, timeline_t *timeline);
void timeline_free(timeline_t *timeline);

/* Runs all steps once; COLL_ERROR_INVALID when the plan deadlocks. */
coll_status_t timeline_run(sim_t *sim, sim_take_t *take, void *context);

#endif
