/*
 * The state of a symbolic run: every lane of every rank, executed one step at a time, over FIFOs of
 * the stated depth.
 */
#ifndef VERIFY_RUN_H
#define VERIFY_RUN_H

#include "verify/channels.h"
#include "verify/expected.h"
#include "verify/memory.h"

/* A step that `after` steps of other lanes wait for. */
typedef struct verify_watched {
  int32_t step, users; /* `after` steps that name it and have not run */
  verify_view_t view;  /* set when the step has run */
} verify_watched_t;

/* A lane's progress. */
typedef struct verify_lane {
  verify_site_t at; /* the next step; at.step == count: none left */
  verify_view_t view;
  bool queued;    /* in the run's queue */
  bool ended;     /* its last step has run */
  bool is_pushed; /* depth 0: the current send has pushed its message, which was not yet received */
  int32_t full_peer; /* multicast plans: a rank whose FIFO is too full_peer for the row of sends */
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
  int32_t *lanes_left;  /* [ranks]: lanes that have not ended */
  uint32_t *queue;      /* ring buffer of the lanes that may be able to continue */
  size_t lane_count, queue_head, queue_length;
  verify_value_t *operands; /* values that a step has read and will write */
  size_t operand_capacity;
} verify_run_t;

/* Number of a lane across all ranks. */
static inline uint32_t verify_lane_number(const plan_t *plan, int32_t rank, int32_t lane) {
  return (uint32_t)(rank * plan->lanes + lane);
}

/* Queues a lane that may be able to continue after the last step. */
void verify_run_wake(verify_run_t *run, int32_t rank, int32_t lane);

#endif
