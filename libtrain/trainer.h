/*
 * Parallel training. Every rank computes its part of the model for its share of the global batch,
 * in one or more micro-batches; the model state of a part is partitioned by the store's ZeRO stage
 * (parallel/store.h). Results depend on the options and the data only, not on ranks, layout, stage
 * or micro-batches, except for the order in which values are added.
 */
#ifndef LIBTRAIN_TRAINER_H
#define LIBTRAIN_TRAINER_H

#include "libtrain/data/corpus.h"
#include "libtrain/evaluate.h"
#include "libtrain/files/metadata.h"
#include "libtrain/model/model.h"
#include "libtrain/overlap_choice.h"
#include "libtrain/parallel/optimizer.h"
#include "libtrain/parallel/ranks.h"
#include "libtrain/parallel/store.h"
#include "libtrain/parallel/trace.h"
#include "libtrain/parallel/traffic.h"
#include "libtrain/schedule/schedule.h"

typedef struct train_options {
  uint64_t steps;                 /* the run ends at this step */
  double seconds;                 /* or after this time, whichever is first; 0: no such limit */
  int batch;                      /* sequences per step, over all ranks */
  train_model_options_t model;    /* model.sequences is the size of a micro-batch and must divide a
                                   * rank's share of the batch; axes, slots and chunk are not
                                   * used: the executor sets them */
  bool choose_tensor_overlap;     /* measure in the first steps how far the tensor axis overlaps
                                   * (overlap_choice.h); otherwise, and with asynchronous schedules,
                                   * it does as the ranks' axes say */
  train_schedule_kind_t schedule; /* of several pipeline stages */
  double rate;                    /* peak learning rate */
  double warmup;                  /* fraction of the run in which the learning rate rises, 0 to 1 */
  double clip;                    /* maximum norm of the gradients: of all of them or, with */
  bool clip_by_stage;             /* asynchronous schedules, of those of each pipeline stage */
  train_adamw_t adamw;
  bool loss_scaling;          /* scale the loss dynamically (loss_scale.h) even if model.precision
                               * does not require it; results are the same */
  int evaluations;            /* number of evaluations (and checkpoints), evenly distributed over
                               * the run; >= 1 */
  uint64_t evaluation_tokens; /* held-out tokens per evaluation */
  const train_tokenizer_t *tokenizer; /* of the dataset; NULL if unknown */
  const char *checkpoint;             /* saved after each evaluation; NULL: never */
  train_trace_t *trace;               /* where each rank records what it does; NULL: nowhere */
} train_options_t;

/* Results of a step, equal on all ranks unless noted. */
typedef struct train_step {
  uint64_t step;   /* from 1 */
  double progress; /* fraction of the run, 0 to 1 */
  double loss;     /* nats per token over the global batch */
  double rate, gradient_norm;
  bool skipped;         /* loss or gradient norm is not finite: nothing was updated */
  char not_finite[128]; /* where a skipped step went wrong: "the gradient of h.3.mlp.c_fc.weight
                         * (layer 3) is the first that is not finite"; "" if unknown */
  double loss_scale;    /* of this step; 1 without loss scaling */
  double next_loss_scale;
  /* Of blocks with experts, else 0: the mean of the balance loss, which is 1 where all experts are
   * chosen alike, and the share of choices that were dropped. */
  double expert_balance, dropped;
  /* Of several pipeline stages with a synchronous schedule, else 0: the share of the passes' time,
   * from the first to the last one of rank 0, in which the mean rank does no pass: it waits for
   * messages of other stages, or has no more to do (planner/metrics.h). */
  double bubble;
  double tokens_per_s; /* over all ranks, since the run started, without evaluations */
  double ms;           /* duration of the step */
  /* This rank's communication time: without overlap, measured in the run's second step (0 before),
   * and the part that this step waited for. */
  double comm_ms, exposed_comm_ms;
  train_traffic_t traffic[TRAIN_TRAFFIC_AXES]; /* of this rank */
  uint64_t bytes_sent;                         /* over the axes */
  int tensor_overlap;                          /* train_model_axes_t.tensor_overlap */
} train_step_t;

/* Callbacks during the run, on every rank; each may be NULL. */
typedef struct train_observer {
  void (*on_step)(void *context, const train_step_t *step);
  void (*on_evaluation)(void *context, const train_step_t *step,
                        const train_evaluation_t *evaluation);
  void (*on_overlap)(void *context, const train_overlap_choice_t *choice); /* it is made; the times
                                                                            * are those of rank 0 */
  void (*on_end)(void *context, const train_model_t *model); /* after the last step of the run */
  void *context;
} train_observer_t;

typedef struct train_result {
  train_step_t last;
  train_evaluation_t held_out; /* at the end of the run */
} train_result_t;

#define TRAIN_SKIPS_MAX 3

/* The most steps of the run after first_step between which no evaluation is due: with an
 * asynchronous schedule they are run without emptying the pipeline. */
int train_longest_span(const train_options_t *options, uint64_t first_step);

/* Trains the model in the store, starting from metadata->position, until the run ends. Updates the
 * position, whose seed determines the data order, and the loss scale. Checkpoints contain the store
 * and the metadata.
 *
 * All ranks skip a step whose loss or gradient norm is not finite: parameters and moments keep
 * their bits, the optimizer does not count the step, but its data are used up. The run ends with
 * COLL_ERROR_INVALID after TRAIN_SKIPS_MAX consecutive skipped steps that a smaller loss scale
 * cannot help: the loss itself is not finite, or there is no loss scaling, or its scale is at the
 * minimum. The last checkpoint is kept.
 *
 * With an asynchronous schedule (schedule.h) the pipeline empties before each evaluation only,
 * steps are reported then, and a step that is not finite ends the run. It needs options.steps
 * without a time limit, an untied head, clip_by_stage, ZeRO stage 0 or 1, and no loss scaling.
 *
 * On failure all ranks return an error, with the message on one of them (see train_group_agree):
 * the one above, invalid options, ranks with different options, a checkpoint that cannot be
 * written. */
coll_status_t train_run(const train_options_t *options, const train_corpus_t *corpus,
                        const train_ranks_t *ranks, const train_observer_t *observer,
                        train_store_t *store, train_metadata_t *metadata, train_result_t *result);

#endif
