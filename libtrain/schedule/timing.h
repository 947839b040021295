/*
 * When each action of a schedule runs if every stage begins it as early as possible. The unit of
 * time is the caller's.
 */
#ifndef LIBTRAIN_SCHEDULE_TIMING_H
#define LIBTRAIN_SCHEDULE_TIMING_H

#include "libtrain/schedule/schedule.h"

/* A whole backward pass takes input + weight. */
typedef struct train_schedule_costs {
  double forward, input, weight;     /* of a micro-batch in all chunks of a stage */
  double update;                     /* of all chunks of a stage */
  double latency;                    /* of a message; the sender goes on meanwhile */
  const double *virtual_stage_parts; /* [stages * chunks]: what each takes of the time of a stage;
                                      * NULL: 1 / chunks each */
  const double *slice_parts;         /* [slices]: what each takes of the time of a micro-batch;
                                      * NULL: 1 / slices each */
} train_schedule_costs_t;

typedef struct train_span {
  double start, end;
} train_span_t;

typedef struct train_timing {
  train_span_t *spans; /* of schedule->actions, in the same order */
  double *busy;        /* [stages] */
  double end;          /* of the last action */
  double bubble;       /* idle share of all stages from 0 to end */
} train_timing_t;

/* COLL_ERROR_INVALID: the schedule deadlocks. *timing is to be freed only after COLL_OK. */
coll_status_t train_schedule_time(const train_schedule_t *schedule,
                                  const train_schedule_costs_t *costs, train_timing_t *timing);
void train_timing_free(train_timing_t *timing);

#endif
