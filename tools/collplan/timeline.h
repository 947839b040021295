/*
 * The time of each step if every rank runs every step as early as possible: the steps of all lanes,
 * the partner of each message and signal, and times in units that the caller chooses.
 */
#ifndef COLLPLAN_TIMELINE_H
#define COLLPLAN_TIMELINE_H

#include "plan/plan.h"

#define TIMELINE_NONE (-1)

typedef struct timeline_step {
  const plan_step_t *step;
  int32_t rank, lane, index;
  int64_t start, end; /* TIMELINE_NONE until it has run */
  int64_t partner;    /* the other end of a message or signal, or TIMELINE_NONE */
  int64_t needs;      /* the receive that frees the FIFO slot of this send, or TIMELINE_NONE */
} timeline_step_t;

/* The duration of a step, and the latency between a send and its receive. */
typedef struct timeline_cost {
  int64_t step, hop;
} timeline_cost_t;

typedef struct timeline {
  const plan_t *plan;
  timeline_step_t *steps; /* by rank, lane, index */
  size_t count;
  size_t *first; /* [ranks * lanes + 1]: first step of each lane */
  int64_t end;   /* of the last step */
} timeline_t;

/* COLL_ERROR_INVALID when the plan deadlocks. The plan must outlive the timeline. */
coll_status_t timeline_create(const plan_t *plan, timeline_cost_t cost, timeline_t *timeline);
void timeline_free(timeline_t *timeline);

#endif
