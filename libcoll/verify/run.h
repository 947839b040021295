/*
 * The symbolic run: every lane of every rank, one step at a time, over FIFOs of the stated depth.
 */
#ifndef VERIFY_RUN_H
#define VERIFY_RUN_H

#include "verify/channels.h"
#include "verify/expected.h"
#include "verify/memory.h"

/* A step that other lanes are ordered after. */
typedef struct verify_watched {
  int32_t step, users; /* `after` steps that name it and are not done */
  verify_view_t view;  /* once it is done */
} verify_watched_t;

/* A lane's progress. */
typedef struct verify_lane {
  verify_site_t at; /* the next step; at.step == count: done */
  verify_view_t view;
  bool queued;  /* in the run's queue */
  bool ended;   /* its last step is done */
  bool offered; /* depth 0: the send at hand waits to be taken */
  int32_t full; /* of a multicast plan: the rank that has no room for the row at hand */
  verify_watched_t *watched; /* ascending steps */
  size_t watched_count, passed_count;
} verify_lane_t;

typedef struct verify_run {
  const plan_t *plan;
  verify_report_t *report;
  verify_clocks_t clocks;
  verify_values_t values;
  verify_memory_t memory;
  verify_channels_t channels;
  verify_expected_t expected;
  verify_lane_t *lanes; /* [ranks * plan->lanes] */
  int32_t *lanes_left;  /* [ranks]: lanes that are not done */
  uint32_t *queue;      /* ring of the lanes that may be able to go on */
  size_t lane_count, queue_head, queue_length;
  verify_value_t *operands; /* what a step has read and is about to write */
  size_t operand_capacity;
} verify_run_t;

/* Number of a lane through all ranks. */
static inline uint32_t verify_lane_number(const plan_t *plan, int32_t rank, int32_t lane) {
  return (uint32_t)(rank * plan->lanes + lane);
}

/* The step at hand, if it can be done now: *done says whether. */
coll_status_t verify_step_run(verify_run_t *run, verify_lane_t *lane, bool *done);

/* Queues a lane that what was just done may have set free. */
void verify_run_wake(verify_run_t *run, int32_t rank, int32_t lane);

/* No lane can go on: rejects the plan, saying who waits for what. */
coll_status_t verify_reject_deadlock(verify_run_t *run);

/* A message or signal was left over: rejects the plan. */
coll_status_t verify_reject_leftover(verify_run_t *run, const verify_channel_t *channel);

#endif
