/*
 * Every chunk of the rank's part has a model, all of which use the store's parameters. Activations
 * and gradients go through a channel each in each direction.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "libtrain/model/activations.h"
#include "libtrain/parallel/executor_state.h"
#include "libtrain/parallel/failure.h"
#include "libtrain/schedule/check.h"

/* ---- creation ---- */

/* The axis between the copies of the token table; NULL: there is only one, because the head has
 * weights of its own. */
static train_axis_t *table_axis(const train_executor_t *executor) {
  return executor_layout(executor)->config.untied ? NULL : executor->ranks->embedding;
}

static coll_status_t allocate_rows(train_executor_t *executor) {
  size_t rows =
      (size_t)executor->options.model.sequences * (size_t)executor_layout(executor)->config.context;
  size_t length = (size_t)executor_longest_pass(executor);
  bool whole = executor_longest_pass(executor) == executor_layout(executor)->config.context;
  size_t own = whole ? 0 : (size_t)executor->options.model.sequences * length;
  void *memory;
  COLL_TRY(base_alloc(2 * (rows + own), sizeof(int32_t), "the batch", &memory));
  executor->tokens = memory;
  executor->targets = executor->tokens + rows;
  executor->own_tokens = own > 0 ? executor->targets + rows : executor->tokens;
  executor->own_targets = own > 0 ? executor->own_tokens + own : executor->targets;
  return COLL_OK;
}

/* Forward passes need no gradients of other stages. */
static coll_status_t open_channels(train_executor_t *executor, int window) {
  const train_ranks_t *ranks = executor->ranks;
  const train_model_t *model = executor->models[0];
  size_t bytes =
      train_dtype_bytes(model->exec.dtype) *
      train_model_stream_count(model, model->options.sequences, executor_longest_pass(executor));
  bool wraps = executor->schedule->shape.chunks > 1;
  if (ranks->stages == 1) return COLL_OK;
  COLL_TRY(
      train_channels_create(&ranks->pipeline, false, wraps, window, bytes, &executor->activations));
  if (executor->store == NULL) return COLL_OK;
  return train_channels_create(&ranks->pipeline, true, wraps, window, bytes, &executor->gradients);
}

static coll_status_t create_models(train_executor_t *executor) {
  const train_layout_t *layout = executor_layout(executor);
  train_model_options_t options = executor->options.model;
  options.axes = executor->ranks->axes;
  options.slots = executor->needs.slots;
  options.split_backward = executor->needs.splits;
  for (int chunk = 0; chunk < layout->part.chunk_count; chunk++) {
    options.chunk = chunk;
    COLL_TRY(train_model_create(layout, &options, &executor->models[chunk]));
  }
  return COLL_OK;
}

/* Those of a schedule that has some; no other one, nor a single stage, cuts sequences. */
static train_slices_t slices_of(const train_executor_options_t *options, int stages) {
  bool cuts = stages > 1 && options->schedule == TRAIN_SCHEDULE_TERAPIPE;
  return cuts ? options->model.slices : (train_slices_t){0};
}

static bool splits_backward(const train_schedule_t *schedule, int stage) {
  size_t count;
  const train_action_t *program = train_schedule_program(schedule, stage, &count);
  for (size_t i = 0; i < count; i++) {
    if (program[i].kind == TRAIN_BACKWARD_INPUT) return true;
  }
  return false;
}

/* The second part of a split backward pass needs most of the activations that recomputation frees,
 * and the gradients between the two parts take their places. */
static coll_status_t check_recompute(const train_executor_options_t *options, bool splits) {
  if (!splits || options->model.recompute == TRAIN_RECOMPUTE_NONE) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "schedule %s keeps activations for the later part of its backward passes, so "
                   "that recomputing them saves nothing: give --recompute none or --schedule 1f1b",
                   train_schedule_names[options->schedule]);
}

/* A step is an update. */
static coll_status_t check_micro_batches(const train_schedule_shape_t *shape) {
  if (shape->kind != TRAIN_SCHEDULE_PIPEDREAM || shape->micro_batches == 1) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "schedule pipedream updates after every micro-batch, so that a step has one, not "
      "%d: give --accumulate 1, or --schedule pipedream-2bw",
      shape->micro_batches);
}

coll_status_t executor_create_schedule(const train_layout_t *layout, const train_ranks_t *ranks,
                                       const train_executor_options_t *options, int steps,
                                       train_schedule_t **schedule, executor_needs_t *needs) {
  const train_slices_t slices = slices_of(options, ranks->stages);
  const train_axis_t *context = ranks->axes.context;
  const train_schedule_shape_t shape = {
      .kind = ranks->stages > 1 ? options->schedule : TRAIN_SCHEDULE_NAIVE,
      .stages = ranks->stages,
      .micro_batches = options->micro_batches,
      .steps = steps,
      .chunks = layout->part.chunk_count,
      .slices = train_slices_count(&slices)};
  train_schedule_report_t report;
  COLL_TRY(train_slices_check(&slices, &layout->config, layout->part.tensor_ranks,
                              ranks->axes.sequence_parallel,
                              context != NULL ? context->group.size : 1));
  COLL_TRY(check_micro_batches(&shape));
  COLL_TRY(train_schedule_create(&shape, schedule));
  COLL_TRY(train_schedule_check(*schedule, &report));
  *needs = (executor_needs_t){.window = report.window,
                              .slots = report.stages[ranks->stage].slots,
                              .splits = splits_backward(*schedule, ranks->stage)};
  if (train_schedule_is_asynchronous(shape.kind)) {
    needs->copies = report.stages[ranks->stage].versions - 1;
  }
  train_schedule_report_free(&report);
  COLL_TRY(check_recompute(options, needs->splits));
  if (needs->window <= TRAIN_CHANNEL_BUFFERS_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "schedule %s needs %d buffers between stages, more than %d",
                   train_schedule_names[shape.kind], needs->window, TRAIN_CHANNEL_BUFFERS_MAX);
}

/* The element type of the weights. */
static train_dtype_t weights_of(const train_model_options_t *options) {
  return train_precision_stored(options->precision, TRAIN_KIND_WEIGHTS);
}

/* Of a message between stages. */
static size_t message_bytes(const train_layout_t *layout, const train_model_options_t *model) {
  const train_sizes_t sizes = train_sizes_of(layout, model);
  return sizes.stream_rows * sizes.width *
         train_dtype_bytes(train_precision_stored(model->precision, TRAIN_KIND_ACTIVATIONS));
}

/* Steps of the longest schedule. */
static int steps_of(const train_executor_options_t *options, int stages) {
  bool several = stages > 1 && train_schedule_is_asynchronous(options->schedule);
  return several && options->steps > 0 ? options->steps : 1;
}

coll_status_t train_executor_predict(const train_layout_t *layout, const train_ranks_t *ranks,
                                     const train_executor_options_t *options, size_t *bytes) {
  train_model_options_t model = options->model;
  train_schedule_t *schedule = NULL;
  executor_needs_t needs;
  coll_status_t status = executor_create_schedule(
      layout, ranks, options, steps_of(options, ranks->stages), &schedule, &needs);
  train_schedule_destroy(schedule);
  COLL_TRY(status);
  model.axes = ranks->axes;
  model.slices = slices_of(options, ranks->stages);
  model.slots = needs.slots;
  model.split_backward = needs.splits;
  *bytes = train_versions_bytes(layout, weights_of(&model), needs.copies);
  for (int chunk = 0; chunk < layout->part.chunk_count; chunk++) {
    model.chunk = chunk;
    *bytes += train_model_bytes(layout, &model);
  }
  bool wraps = layout->part.chunk_count > 1;
  int sends = wraps ? 2 : (ranks->stage < ranks->stages - 1) + (ranks->stage > 0);
  *bytes += (size_t)(sends * needs.window) * message_bytes(layout, &model);
  return COLL_OK;
}

/* Evaluation and sampling have one micro-batch after another: a stage computes the next one while
 * its message waits. */
enum { FORWARD_WINDOW = 2 };

static train_model_options_t forward_options(const train_ranks_t *ranks,
                                             const train_model_options_t *model) {
  train_model_options_t options = *model;
  options.axes = ranks->axes;
  options.forward_only = true;
  return options;
}

size_t train_executor_predict_forward(const train_layout_t *layout, const train_ranks_t *ranks,
                                      const train_model_options_t *model) {
  const train_model_options_t options = forward_options(ranks, model);
  size_t sends = ranks->stage < ranks->stages - 1 ? FORWARD_WINDOW : 0;
  return train_model_bytes(layout, &options) + sends * message_bytes(layout, &options);
}

static coll_status_t initialize(train_executor_t *executor) {
  train_store_t *store = executor->store;
  const train_ranks_t *ranks = executor->ranks;
  train_axis_t *tensor = ranks->axes.sequence_parallel ? ranks->axes.tensor : NULL;
  const train_layout_t *layout = executor_layout(executor);
  const train_executor_options_t *options = &executor->options;
  COLL_TRY(executor_create_schedule(layout, ranks, options, steps_of(options, ranks->stages),
                                    &executor->schedule, &executor->needs));
  COLL_TRY(train_gradient_sync_init(layout, train_store_provider(store), tensor,
                                    table_axis(executor), train_store_options(store)->stage,
                                    &executor->sync));
  COLL_TRY(train_versions_init(layout, train_gradient_sync_provider(&executor->sync),
                               weights_of(&options->model), executor->needs.copies,
                               &executor->versions));
  executor->provider = train_versions_provider(&executor->versions);
  train_store_share_table(store, table_axis(executor));
  COLL_TRY(create_models(executor));
  return allocate_rows(executor);
}

static coll_status_t initialize_forward(train_executor_t *executor) {
  COLL_TRY(executor_create_schedule(executor->layout, executor->ranks, &executor->options, 1,
                                    &executor->schedule, &executor->needs));
  executor->needs.window = FORWARD_WINDOW;
  COLL_TRY(create_models(executor));
  return allocate_rows(executor);
}

static void record_traffic(train_executor_t *executor, train_trace_t *trace) {
  if (executor->store == NULL) return;
  const train_traffic_sources_t counters = train_executor_counters(executor);
  train_traffic_record(&counters, trace);
}

/* All ranks agree before they make communicators together. The executor is destroyed on failure. */
static coll_status_t connect(coll_status_t status, train_executor_t *executor) {
  const train_ranks_t *ranks = executor->ranks;
  status = train_group_agree(&ranks->all, status);
  if (status == COLL_OK) status = train_failure_watch_create(ranks, &executor->watch);
  if (status == COLL_OK) status = open_channels(executor, executor->needs.window);
  if (status == COLL_OK) return COLL_OK;
  status = train_executor_fail(executor, status);
  train_executor_destroy(executor);
  return status;
}

coll_status_t train_executor_create(train_store_t *store, const train_ranks_t *ranks,
                                    const train_executor_options_t *options,
                                    train_executor_t **executor) {
  void *memory = NULL;
  coll_status_t status = base_alloc(1, sizeof(train_executor_t), "the executor", &memory);
  if (status != COLL_OK) return train_group_agree(&ranks->all, status);
  train_executor_t *created = memory;
  *created = (train_executor_t){
      .store = store, .layout = train_store_layout(store), .ranks = ranks, .options = *options};
  created->options.model.slices = slices_of(options, ranks->stages);
  COLL_TRY(connect(initialize(created), created));
  record_traffic(created, options->trace);
  *executor = created;
  return COLL_OK;
}

coll_status_t train_executor_create_forward(const train_layout_t *layout,
                                            const train_param_provider_t *provider,
                                            const train_ranks_t *ranks,
                                            const train_model_options_t *model,
                                            train_executor_t **executor) {
  void *memory = NULL;
  coll_status_t status = base_alloc(1, sizeof(train_executor_t), "the executor", &memory);
  if (status != COLL_OK) return train_group_agree(&ranks->all, status);
  train_executor_t *created = memory;
  *created = (train_executor_t){.layout = layout,
                                .provider = *provider,
                                .ranks = ranks,
                                .options = {.model = forward_options(ranks, model),
                                            .micro_batches = 1,
                                            .schedule = TRAIN_SCHEDULE_NAIVE}};
  COLL_TRY(connect(initialize_forward(created), created));
  *executor = created;
  return COLL_OK;
}

void train_executor_destroy(train_executor_t *executor) {
  if (executor == NULL) return;
  record_traffic(executor, NULL);
  train_channels_free(&executor->gradients);
  train_channels_free(&executor->activations);
  if (executor->watch != NULL) coll_comm_destroy(executor->watch);
  free(executor->tokens);
  for (int chunk = 0; chunk < TRAIN_CHUNKS_MAX; chunk++) {
    train_model_destroy(executor->models[chunk]);
  }
  train_schedule_destroy(executor->schedule);
  train_versions_free(&executor->versions);
  train_gradient_sync_free(&executor->sync);
  free(executor);
}

coll_status_t train_executor_fail(train_executor_t *executor, coll_status_t status) {
  if (status == COLL_OK || executor == NULL) return status;
  bool failed = train_channels_failed(&executor->activations) ||
                train_channels_failed(&executor->gradients) || train_ranks_failed(executor->ranks);
  if (!failed) return status;
  train_channels_abort(&executor->activations);
  train_channels_abort(&executor->gradients);
  return train_ranks_fail(executor->ranks, executor->watch, status);
}

train_model_t *train_executor_model(const train_executor_t *executor) {
  return executor->models[0];
}

/* ---- overlap ---- */

void train_executor_set_overlap(train_executor_t *executor, bool overlap) {
  const train_model_axes_t *axes = &executor->ranks->axes;
  train_store_set_overlap(executor->store, overlap);
  if (axes->tensor != NULL) axes->tensor->serial = !overlap;
  if (axes->context != NULL) axes->context->serial = !overlap;
}

void train_executor_set_tensor_overlap(train_executor_t *executor, int overlap) {
  for (int chunk = 0; chunk < executor_layout(executor)->part.chunk_count; chunk++) {
    executor->models[chunk]->options.axes.tensor_overlap = overlap;
  }
}

/* ---- traffic ---- */

train_traffic_sources_t train_executor_counters(train_executor_t *executor) {
  return (train_traffic_sources_t){.store = executor->store,
                                   .ranks = executor->ranks,
                                   .channels = {&executor->activations, &executor->gradients}};
}

void train_executor_traffic(train_executor_t *executor,
                            train_traffic_t traffic[TRAIN_TRAFFIC_AXES]) {
  const train_traffic_sources_t counters = train_executor_counters(executor);
  train_traffic_read(&counters, traffic);
}
