/* The state of an executor, shared by executor.c and executor_run.c. */
#ifndef LIBTRAIN_PARALLEL_EXECUTOR_STATE_H
#define LIBTRAIN_PARALLEL_EXECUTOR_STATE_H

#include "libtrain/parallel/channel.h"
#include "libtrain/parallel/executor.h"
#include "libtrain/parallel/gradient_sync.h"
#include "libtrain/parallel/versions.h"

/* What a schedule needs of a stage. */
typedef struct executor_needs {
  int window;  /* buffers of a channel */
  int slots;   /* micro-batches in flight in each chunk */
  int copies;  /* versions of the weights besides the newest */
  bool splits; /* the gradients of inputs and of weights are computed apart */
} executor_needs_t;

struct train_executor {
  train_store_t *store; /* NULL: forward passes only */
  const train_layout_t *layout;
  const train_ranks_t *ranks;
  train_executor_options_t options;
  train_gradient_sync_t sync;
  train_versions_t versions;
  train_param_provider_t provider;
  train_schedule_t *schedule;
  executor_needs_t needs; /* of the longest schedule */
  train_model_t *models[TRAIN_CHUNKS_MAX];
  train_channels_t activations, gradients;
  coll_comm_t watch;                 /* of failure.h */
  int32_t *tokens, *targets;         /* [sequences, context] */
  int32_t *own_tokens, *own_targets; /* of this context rank or of a slice, [sequences, length]; the
                                      * same arrays where passes have whole sequences */
  int rows_of;                       /* the micro-batch that is in the former; -1: none */
  int own_rows_of;                   /* the slot that is in the latter; -1: none */
};

static inline const train_layout_t *executor_layout(const struct train_executor *executor) {
  return executor->layout;
}

static inline int executor_context_ranks(const struct train_executor *executor) {
  const train_axis_t *axis = executor->ranks->axes.context;
  return axis != NULL ? axis->group.size : 1;
}

/* Positions of a sequence on this context rank, in a slice of it, and in the longest slice. */
static inline int executor_own_length(const struct train_executor *executor) {
  return executor_layout(executor)->config.context / executor_context_ranks(executor);
}

static inline int executor_pass_length(const struct train_executor *executor, int slice) {
  const train_slices_t *slices = &executor->options.model.slices;
  return train_slices_length(slices, slice, executor_own_length(executor));
}

static inline int executor_longest_pass(const struct train_executor *executor) {
  return train_slices_longest(&executor->options.model.slices, executor_own_length(executor));
}

/* Backward passes of each unit in a step. */
static inline int executor_passes(const struct train_executor *executor) {
  return executor->options.micro_batches * train_slices_count(&executor->options.model.slices);
}

/* Builds and proves the schedule of that many steps. */
coll_status_t executor_create_schedule(const train_layout_t *layout, const train_ranks_t *ranks,
                                       const train_executor_options_t *options, int steps,
                                       train_schedule_t **schedule, executor_needs_t *needs);

#endif
