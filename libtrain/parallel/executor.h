/*
 * Runs the passes of a step on this rank: the actions that the schedule has for its pipeline stage,
 * with the messages between stages that follow from them (schedule/schedule.h). One rank is a
 * schedule of one stage.
 */
#ifndef LIBTRAIN_PARALLEL_EXECUTOR_H
#define LIBTRAIN_PARALLEL_EXECUTOR_H

#include "libtrain/model/model.h"
#include "libtrain/parallel/ranks.h"
#include "libtrain/parallel/store.h"
#include "libtrain/parallel/traffic.h"
#include "libtrain/schedule/schedule.h"

typedef struct train_executor train_executor_t;

typedef struct train_executor_options {
  train_model_options_t model;    /* axes, slots and chunk are set by the executor; slices are for
                                   * schedule terapipe only */
  int micro_batches;              /* of a step, each of model.sequences */
  train_schedule_kind_t schedule; /* of several stages; chunks are those of the layout's part */
  train_trace_t *trace;           /* where passes, calls and waits are recorded, until the executor
                                   * is destroyed; NULL: nowhere */
  int steps;                      /* asynchronous schedules: of the longest train_executor_steps;
                                   * 0: 1 */
} train_executor_options_t;

/* Supplies the rows of a micro-batch: tokens[sequences, context] and targets alike. Called on the
 * ranks that need them, those that embed or classify, in any order, maybe more than once. */
typedef struct train_rows {
  void (*read)(void *context, int micro_batch, int32_t *tokens, int32_t *targets);
  void *context;
} train_rows_t;

/* The store, whose layout is that of this rank's part, and the ranks must outlive it. Collective
 * over all ranks. COLL_ERROR_INVALID: the schedule cannot have this shape, or needs more buffers
 * between stages than TRAIN_CHANNEL_BUFFERS_MAX. */
coll_status_t train_executor_create(train_store_t *store, const train_ranks_t *ranks,
                                    const train_executor_options_t *options,
                                    train_executor_t **executor);

/* An executor without a store, for train_executor_loss and train_executor_extend, whose models are
 * forward_only: `provider` gives the parameters of `layout`, which is that of this rank's part.
 * Both must outlive it. Collective likewise. */
coll_status_t train_executor_create_forward(const train_layout_t *layout,
                                            const train_param_provider_t *provider,
                                            const train_ranks_t *ranks,
                                            const train_model_options_t *model,
                                            train_executor_t **executor);
void train_executor_destroy(train_executor_t *executor);

/* Bytes that the models of an executor and its channels will allocate. Not collective. */
coll_status_t train_executor_predict(const train_layout_t *layout, const train_ranks_t *ranks,
                                     const train_executor_options_t *options, size_t *bytes);

/* Of an executor of forward passes. */
size_t train_executor_predict_forward(const train_layout_t *layout, const train_ranks_t *ranks,
                                      const train_model_options_t *model);

/* Not for asynchronous schedules. Computes the gradients of scale * loss over the micro-batches and
 * leaves them in the store, where
 * train_store_finish waits for their reduction. *loss is this rank's part of the loss in nats: the
 * sum over all ranks is the loss, summed over all positions. All ranks make the same calls. */
coll_status_t train_executor_gradients(train_executor_t *executor, const train_rows_t *rows,
                                       float scale, double *loss);

/* Called by train_executor_steps when the gradients of a step, from 0, are in the store: waits for
 * their reduction (train_store_finish) and updates the store. loss is this rank's part of that of
 * the step, as above. Ranks of other stages are at other steps; those of the same stage are at the
 * same. */
typedef struct train_updates {
  coll_status_t (*update)(void *context, int step, double loss);
  void *context;
} train_updates_t;

/* Runs an asynchronous schedule (schedule.h), in whose course each stage updates its weights, for
 * as many steps, and empties the pipeline at the end. The gradients of a step are those of scale *
 * loss over its micro-batches; rows has micro-batches 0 to steps * micro_batches - 1. The weights
 * that a micro-batch uses are up to train_schedule_staleness_limit steps old, but none older than
 * those at the begin of the call. Counters are those of the latest step; routers count forward
 * passes when they run, which may be some steps ahead. */
coll_status_t train_executor_steps(train_executor_t *executor, int steps, const train_rows_t *rows,
                                   float scale, const train_updates_t *updates);

/* The same without gradients, for tokens[sequences, context] of this rank's share of the batch;
 * sequences <= model.sequences. */
coll_status_t train_executor_loss(train_executor_t *executor, const int32_t *tokens,
                                  const int32_t *targets, int sequences, double *loss);

/* Extends a single sequence, as train_model_extend does. All ranks, which are tensor ranks and
 * stages only, make the same calls, and get the same logits[vocabulary]. */
coll_status_t train_executor_extend(train_executor_t *executor, const int32_t *tokens, int first,
                                    int count, float *logits);

/* What the routers of this rank's blocks with experts did in the latest train_executor_gradients:
 * sums, of which the sum over all ranks is that of the whole model. */
train_router_result_t train_executor_routed(const train_executor_t *executor);

/* To be called once after any failed call of a step, an evaluation or a save, with its status and
 * base_last_error. If a communicator has failed, aborts all that this rank has, so that no other
 * rank waits for this one, and returns the failure with a text that names the lost rank of the job.
 * If none has, the ranks have agreed on the failure: returns it as it is. executor may be NULL. */
coll_status_t train_executor_fail(train_executor_t *executor, coll_status_t status);

/* What this rank has sent and waited for since the latest train_executor_gradients, by axis; and
 * where it is counted. */
void train_executor_traffic(train_executor_t *executor,
                            train_traffic_t traffic[TRAIN_TRAFFIC_AXES]);
train_traffic_sources_t train_executor_counters(train_executor_t *executor);

/* Whether collectives overlap with computation: those of the store (train_store_set_overlap), and
 * those of the tensor and context axes as the model has been told. Between steps; results are the
 * same. */
void train_executor_set_overlap(train_executor_t *executor, bool overlap);

/* Sets train_model_axes_t.tensor_overlap, between passes, to the same on all tensor ranks. */
void train_executor_set_tensor_overlap(train_executor_t *executor, int overlap);

/* The model of the rank's first chunk. */
train_model_t *train_executor_model(const train_executor_t *executor);

#endif
