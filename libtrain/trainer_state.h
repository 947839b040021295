/* The state of a training run, shared by trainer.c and trainer_steps.c. */
#ifndef LIBTRAIN_TRAINER_STATE_H
#define LIBTRAIN_TRAINER_STATE_H

#include "libtrain/parallel/executor.h"
#include "libtrain/trainer.h"

/* Values summed over the ranks. */
enum {
  SUM_LOSS,
  SUM_SQUARES,
  SUM_PROGRESS,
  SUM_FAILURES,
  SUM_BALANCE,
  SUM_KEPT,
  SUM_DROPPED,
  SUM_BUSY_MS, /* in passes */
  SUM_SPAN_MS, /* of the passes of rank 0, which begin first and end last */
  SUM_OVERLAP, /* rank 0's choice */
  SUMS
};

typedef struct train_run_state {
  const train_options_t *options;
  const train_corpus_t *corpus;
  const train_ranks_t *ranks;
  const train_group_t *group; /* all ranks */
  train_store_t *store;
  train_metadata_t *metadata;
  train_executor_t *executor;
  bool scales_loss;              /* otherwise the scale is always 1 */
  train_loss_scale_t loss_scale; /* of the next step */
  int losses_not_finite;         /* consecutive steps whose loss is not finite */
  int skips_at_minimum;          /* consecutive skipped steps with the minimum loss scale */
  int micro_batches;             /* per step */
  int rows, context;             /* of a micro-batch on this rank */
  uint64_t first_step;
  uint64_t started_ns, evaluation_ns;
  double comm_ms;
  bool chooses_overlap;
  train_overlap_choice_t overlap;
  coll_status_t failure; /* set if this rank cannot read its data */
} run_t;

/* The fraction of the run that is done after this step. */
double run_progress(const run_t *run, uint64_t step);

/* For train_rows_t: this rank's rows of a micro-batch, counted from the position on. */
void run_read_rows(void *context, int micro_batch, int32_t *tokens, int32_t *targets);

/* What this rank's experts did in the step, to be summed; and what the sums say of all ranks. */
void run_add_routed(const run_t *run, double *sums);
void run_describe_routed(const run_t *run, const double *sums, train_step_t *step);

double run_without_nan_sign(double value);
void run_advance(run_t *run); /* the position, by a step */

/* The text of a run that ends because the step's loss or gradient norm is not finite. Collective.
 */
coll_status_t run_fail_not_finite(const run_t *run, const train_step_t *step);

/* Collective. */
coll_status_t run_evaluate_and_save(run_t *run, train_evaluation_t *evaluation);

/* ---- asynchronous schedules (trainer_steps.c) ---- */

/* Whether stages update at different times. */
bool run_is_asynchronous(const run_t *run);

/* COLL_ERROR_INVALID: the options do not allow it, or are only for it. */
coll_status_t run_check_asynchronous(const run_t *run);

/* The training loop. */
coll_status_t run_asynchronous(run_t *run, const train_observer_t *observer,
                               train_result_t *result);

#endif
