/*
 * Proves a schedule: every pass exactly once, every dependency inside a stage and between stages in
 * order (the backward passes of a micro-batch's slices follow each other), no deadlock under the
 * transport's rule (schedule.h), one version of the weights for all passes of a micro-batch
 * (vertical sync; Harlap et al. 2018, "PipeDream"), updates only when all their gradients are
 * there, and activations and staleness within the limits of the kind.
 */
#ifndef LIBTRAIN_SCHEDULE_CHECK_H
#define LIBTRAIN_SCHEDULE_CHECK_H

#include "libtrain/schedule/schedule.h"

typedef struct train_stage_report {
  int live;     /* most micro-batches, counted in each chunk, whose forward pass has begun and whose
                 * backward passes have not ended */
  int slots;    /* buffers of a chunk: micro_batch % slots differs for all that are live */
  int versions; /* most versions of the weights that are held at a time, the newest included */
} train_stage_report_t;

typedef struct train_schedule_report {
  train_stage_report_t *stages; /* [shape.stages] */
  int staleness; /* most updates between the weights that a micro-batch used and its own update */
  int window;    /* send buffers of a channel that suffice, at least 1 */
} train_schedule_report_t;

/* COLL_ERROR_INVALID: the message names the stage, the action and the rule. *report is to be freed
 * only after COLL_OK. */
coll_status_t train_schedule_check(const train_schedule_t *schedule,
                                   train_schedule_report_t *report);
void train_schedule_report_free(train_schedule_report_t *report);

#endif
