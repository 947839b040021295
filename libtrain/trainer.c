/*
 * The training loop. After the gradients are reduced, one small all-reduce combines the loss, the
 * squared gradient norm, rank 0's clock and failures, so that all ranks have the same values, skip
 * the same steps and stop at the same step.
 */
#include "libtrain/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "libtrain/common/random.h"
#include "libtrain/data/shuffle.h"
#include "libtrain/files/checkpoint.h"
#include "libtrain/parallel/save.h"
#include "libtrain/planner/metrics.h"
#include "libtrain/trainer_state.h"

/* ---- a step ---- */

static double ms_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-6;
}

/* The fraction of the run that is done after this step. */
double run_progress(const run_t *run, uint64_t step) {
  const train_options_t *options = run->options;
  double by_steps = options->steps > 0 ? (double)step / (double)options->steps : 0;
  double by_time = options->seconds > 0 ? ms_since(run->started_ns) * 1e-3 / options->seconds : 0;
  double progress = by_steps > by_time ? by_steps : by_time;
  return progress < 1 ? progress : 1;
}

/* Reads this rank's rows of the micro-batch, counted from the position on, for train_rows_t. The
 * global batch of a step is divided by share, then by micro-batch. A rank that cannot read its data
 * continues with zeros until all ranks agree on the failure, because the others wait for its
 * collectives. */
void run_read_rows(void *context, int micro_batch, int32_t *tokens, int32_t *targets) {
  run_t *run = context;
  const train_position_t *position = &run->metadata->position;
  const train_dataset_t *dataset = &run->corpus->training;
  uint64_t windows = train_dataset_windows(dataset, run->context);
  size_t length = (size_t)run->context;
  int step = micro_batch / run->micro_batches, of_step = micro_batch % run->micro_batches;
  uint64_t first = (uint64_t)step * (uint64_t)run->options->batch +
                   (uint64_t)((run->ranks->share * run->micro_batches + of_step) * run->rows);
  for (int row = 0; row < run->rows; row++, tokens += length, targets += length) {
    uint64_t draw = position->sequences + first + (uint64_t)row;
    uint64_t offset = train_shuffle_window(position->seed, windows, draw) * length;
    coll_status_t status = train_dataset_sequence(dataset, offset, run->context, tokens, targets);
    if (status == COLL_OK) continue;
    run->failure = status;
    memset(tokens, 0, length * sizeof *tokens);
    memset(targets, 0, length * sizeof *targets);
  }
}

/* Computes the gradients of the mean loss over the global batch, multiplied by the loss scale.
 * *loss is this rank's part of the mean loss, not multiplied by it. */
static coll_status_t compute_gradients(run_t *run, double *loss) {
  const train_options_t *options = run->options;
  const train_rows_t rows = {.read = run_read_rows, .context = run};
  float mean = 1.0f / ((float)options->batch * (float)run->context);
  float scale = mean * (float)run->loss_scale.scale;
  double sum;
  COLL_TRY(train_executor_gradients(run->executor, &rows, scale, &sum));
  *loss = sum * (double)mean;
  return COLL_OK;
}

static coll_status_t fail_held_out_not_finite(const run_t *run, double loss) {
  return train_group_agree(run->group,
                           base_fail(COLL_ERROR_INVALID,
                                     "the held-out loss is not finite after step %llu (%g): lower "
                                     "--lr; the last checkpoint is unchanged",
                                     (unsigned long long)run->metadata->position.step, loss));
}

coll_status_t run_fail_not_finite(const run_t *run, const train_step_t *step) {
  const char *where = step->not_finite;
  return train_group_agree(
      run->group,
      base_fail(COLL_ERROR_INVALID,
                "the %s is not finite at step %llu (loss %g, gradient norm %g): %s%slower --lr; "
                "the last checkpoint is unchanged",
                isfinite(step->loss) ? "gradient norm" : "loss", (unsigned long long)step->step,
                step->loss, step->gradient_norm, where, where[0] != '\0' ? "; " : ""));
}

/* Describes where the step went wrong, the same on all ranks (train_step_t.not_finite).
 * Collective. */
static coll_status_t describe_not_finite(const run_t *run, char *text, size_t size) {
  train_layout_t *whole;
  int index;
  train_kind_t kind;
  COLL_TRY(train_store_find_not_finite(run->store, run->group, &index, &kind));
  if (index < 0) return COLL_OK; /* only the loss: the text stays "" */
  COLL_TRY(train_layout_create(&train_store_layout(run->store)->config, &whole));
  const train_tensor_t *tensor = &whole->tensors[index];
  char layer[32] = "";
  if (tensor->layer >= 0) snprintf(layer, sizeof layer, " (layer %d)", tensor->layer);
  snprintf(text, size,
           kind == TRAIN_KIND_WEIGHTS ? "the values of %s%s are not finite"
                                      : "the gradient of %s%s is the first that is not finite",
           tensor->name, layer);
  train_layout_destroy(whole);
  return COLL_OK;
}

/* The gradients are still multiplied by the loss scale. Skipped steps do not count for AdamW's bias
 * correction, because they do not change the moments. */
static coll_status_t update_parameters(run_t *run, const train_step_t *step) {
  const train_options_t *options = run->options;
  float clip = train_gradient_clip(step->gradient_norm, options->clip);
  run->losses_not_finite = run->skips_at_minimum = 0;
  return train_store_update(run->store, &options->adamw, clip / (float)step->loss_scale,
                            (float)step->rate, step->step - run->metadata->position.skipped);
}

/* Leaves the store unchanged. Fails if the next steps would be skipped, too. */
static coll_status_t skip_update(run_t *run, train_step_t *step) {
  bool at_minimum = step->loss_scale <= TRAIN_LOSS_SCALE_MIN;
  COLL_TRY(describe_not_finite(run, step->not_finite, sizeof step->not_finite));
  run->losses_not_finite = isfinite(step->loss) ? 0 : run->losses_not_finite + 1;
  run->skips_at_minimum = at_minimum ? run->skips_at_minimum + 1 : 0;
  if (run->losses_not_finite == TRAIN_SKIPS_MAX || run->skips_at_minimum == TRAIN_SKIPS_MAX) {
    return run_fail_not_finite(run, step);
  }
  run->metadata->position.skipped++;
  return COLL_OK;
}

static void update_loss_scale(run_t *run, train_step_t *step) {
  if (run->scales_loss) {
    train_loss_scale_update(&run->loss_scale, !step->skipped);
    run->metadata->loss_scale = run->loss_scale;
  }
  step->next_loss_scale = run->loss_scale.scale;
}

void run_advance(run_t *run) {
  const train_options_t *options = run->options;
  train_position_t *position = &run->metadata->position;
  position->step++;
  position->sequences += (uint64_t)options->batch;
  position->tokens += (uint64_t)options->batch * (uint64_t)run->context;
}

/* printf shows the sign of a NaN, which has no meaning. */
double run_without_nan_sign(double value) {
  return isnan(value) ? (double)NAN : value;
}

void run_add_routed(const run_t *run, double *sums) {
  const train_router_result_t routed = train_executor_routed(run->executor);
  sums[SUM_BALANCE] = routed.balance;
  sums[SUM_KEPT] = (double)routed.kept;
  sums[SUM_DROPPED] = (double)routed.dropped;
}

void run_describe_routed(const run_t *run, const double *sums, train_step_t *step) {
  double choices = sums[SUM_KEPT] + sums[SUM_DROPPED];
  if (!(choices > 0)) return;
  step->expert_balance = sums[SUM_BALANCE] * train_store_layout(run->store)->config.top_k / choices;
  step->dropped = sums[SUM_DROPPED] / choices;
}

/* After the passes that began at start_ns. Messages within a stage are part of its passes; those
 * for the token table are not. */
static void add_busy(const run_t *run, uint64_t start_ns, double *sums) {
  train_traffic_t traffic[TRAIN_TRAFFIC_AXES];
  if (run->ranks->stages == 1) return;
  double all_ms = ms_since(start_ns);
  train_executor_traffic(run->executor, traffic);
  double span_ms = all_ms - (double)traffic[TRAIN_TRAFFIC_EMBEDDING].waited_ns * 1e-6;
  sums[SUM_BUSY_MS] = span_ms - (double)traffic[TRAIN_TRAFFIC_PIPELINE].waited_ns * 1e-6;
  if (run->group->rank == 0) sums[SUM_SPAN_MS] = span_ms;
}

static double bubble_of(const run_t *run, const double *sums) {
  double busy_ms = sums[SUM_BUSY_MS] / run->group->size;
  double bubble = train_metrics_bubble(&busy_ms, 1, sums[SUM_SPAN_MS]);
  return run->ranks->stages > 1 && bubble > 0 ? bubble : 0;
}

/* One step: gradients, the values common to all ranks, and the optimizer step. All ranks make the
 * same decision to skip it, because the sums have the same bits on all. */
static coll_status_t run_step(run_t *run, train_step_t *result) {
  const train_options_t *options = run->options;
  double sums[SUMS] = {0};
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(compute_gradients(run, &sums[SUM_LOSS]));
  add_busy(run, start_ns, sums);
  COLL_TRY(train_store_finish(run->store, &sums[SUM_SQUARES]));
  uint64_t step = run->metadata->position.step + 1;
  if (run->group->rank == 0) {
    sums[SUM_PROGRESS] = run_progress(run, step);
    sums[SUM_OVERLAP] = train_overlap_best(&run->overlap);
  }
  sums[SUM_FAILURES] = run->failure != COLL_OK;
  run_add_routed(run, sums);
  uint64_t waiting_ns = base_clock_now_ns();
  COLL_TRY(train_group_sum_doubles(run->group, sums, SUMS));
  result->exposed_comm_ms = ms_since(waiting_ns);
  train_trace_action(options->trace, TRAIN_TRACE_SUMS, waiting_ns);
  if (sums[SUM_FAILURES] > 0) return train_group_agree(run->group, run->failure);
  run->overlap.chosen = (int)sums[SUM_OVERLAP];
  result->step = step;
  result->progress = sums[SUM_PROGRESS];
  result->loss = run_without_nan_sign(sums[SUM_LOSS]);
  result->loss_scale = run->loss_scale.scale;
  result->bubble = bubble_of(run, sums);
  run_describe_routed(run, sums, result);
  result->gradient_norm = run_without_nan_sign(sqrt(sums[SUM_SQUARES])) / result->loss_scale;
  result->rate = (double)train_learning_rate_at(options->rate, options->warmup, result->progress);
  result->skipped = !isfinite(result->loss) || !isfinite(result->gradient_norm);
  uint64_t update_ns = train_trace_now(options->trace);
  COLL_TRY(result->skipped ? skip_update(run, result) : update_parameters(run, result));
  train_trace_action(options->trace, TRAIN_TRACE_UPDATE, update_ns);
  update_loss_scale(run, result);
  run_advance(run);
  return COLL_OK;
}

/* How far the tensor axis overlaps in the next step. */
static int set_tensor_overlap(const run_t *run, uint64_t steps_done) {
  const train_model_axes_t *axes = &run->ranks->axes;
  if (!run->chooses_overlap) return axes->tensor != NULL ? axes->tensor_overlap : 0;
  int overlap = train_overlap_candidates[train_overlap_of_step(&run->overlap, steps_done)];
  train_executor_set_tensor_overlap(run->executor, overlap);
  return overlap;
}

static coll_status_t take_step(run_t *run, train_step_t *result) {
  uint64_t start_ns = base_clock_now_ns();
  uint64_t steps_done = run->metadata->position.step - run->first_step;
  bool serial = !train_store_options(run->store)->comm.overlap || steps_done == 1;
  train_step_t now = {.tensor_overlap = set_tensor_overlap(run, steps_done)};
  train_executor_set_overlap(run->executor, !serial);
  COLL_TRY(run_step(run, &now));
  train_executor_traffic(run->executor, now.traffic);
  double positions = (double)(steps_done + 1) * run->options->batch * run->context;
  now.ms = ms_since(start_ns);
  train_overlap_add(&run->overlap, steps_done, now.ms);
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES; axis++) {
    now.bytes_sent += now.traffic[axis].bytes_sent;
    now.exposed_comm_ms += (double)now.traffic[axis].waited_ns * 1e-6;
  }
  if (serial) run->comm_ms = now.exposed_comm_ms;
  now.comm_ms = run->comm_ms;
  now.tokens_per_s = positions / (ms_since(run->started_ns + run->evaluation_ns) * 1e-3);
  *result = now;
  return COLL_OK;
}

/* ---- the run ---- */

static coll_status_t save(const run_t *run) {
  const train_options_t *options = run->options;
  const train_pieces_t pieces = train_store_pieces(run->store);
  if (options->checkpoint == NULL) return COLL_OK;
  return train_checkpoint_save(run->group, options->checkpoint, run->metadata, &pieces);
}

/* For train_loss_t. */
static coll_status_t compute_loss(void *computer, const int32_t *tokens, const int32_t *targets,
                                  int count, double *loss) {
  return train_executor_loss(computer, tokens, targets, count, loss);
}

coll_status_t run_evaluate_and_save(run_t *run, train_evaluation_t *evaluation) {
  const train_options_t *options = run->options;
  uint64_t start_ns = base_clock_now_ns();
  const train_loss_t loss = {.sequences = run->rows,
                             .context = run->context,
                             .compute = compute_loss,
                             .computer = run->executor};
  COLL_TRY(train_evaluate(&run->corpus->held_out, options->tokenizer, options->evaluation_tokens,
                          run->ranks, &loss, evaluation));
  if (!isfinite(evaluation->loss)) return fail_held_out_not_finite(run, evaluation->loss);
  COLL_TRY(save(run));
  run->evaluation_ns += base_clock_now_ns() - start_ns;
  train_trace_action(options->trace, TRAIN_TRACE_EVALUATION, start_ns);
  return COLL_OK;
}

/* The step just taken is behind the position. */
static void report_overlap(const run_t *run, const train_observer_t *observer) {
  uint64_t last = run->metadata->position.step - run->first_step - 1;
  if (!run->chooses_overlap || !train_overlap_decides(last) || observer->on_overlap == NULL) return;
  observer->on_overlap(observer->context, &run->overlap);
}

static coll_status_t run_loop(run_t *run, const train_observer_t *observer,
                              train_result_t *result) {
  int evaluations = run->options->evaluations, evaluated = 0;
  while (evaluated < evaluations) {
    COLL_TRY(take_step(run, &result->last));
    if (observer->on_step != NULL) observer->on_step(observer->context, &result->last);
    report_overlap(run, observer);
    int evaluations_due = (int)(result->last.progress * evaluations);
    if (evaluations_due <= evaluated) continue;
    evaluated = evaluations_due;
    COLL_TRY(run_evaluate_and_save(run, &result->held_out));
    if (observer->on_evaluation != NULL) {
      observer->on_evaluation(observer->context, &result->last, &result->held_out);
    }
  }
  return COLL_OK;
}

/* Checks that need no communication, before the first step. */
static coll_status_t check_local(const run_t *run) {
  const train_options_t *options = run->options;
  uint64_t step = run->metadata->position.step;
  if (options->batch < 1 || run->micro_batches * run->rows * run->ranks->shares != options->batch) {
    return base_fail(COLL_ERROR_INVALID,
                     "a batch of %d does not split evenly over %d ranks in micro-batches of %d: "
                     "make --batch a multiple of both",
                     options->batch, run->ranks->shares, run->rows);
  }
  if (options->steps == 0 && !(options->seconds > 0)) {
    return base_fail(COLL_ERROR_INVALID, "the run has no end: give --steps or --seconds");
  }
  if (options->steps > 0 && step >= options->steps) {
    return base_fail(COLL_ERROR_INVALID,
                     "the checkpoint is already at step %llu: raise --steps %llu",
                     (unsigned long long)step, (unsigned long long)options->steps);
  }
  COLL_TRY(run_check_asynchronous(run));
  COLL_TRY(train_corpus_check(run->corpus, run->context));
  if (run->group->rank != 0 || options->checkpoint == NULL) return COLL_OK;
  return train_checkpoint_probe(options->checkpoint);
}

/* A digest of everything that must be equal on all ranks. */
static uint64_t digest_of(const run_t *run) {
  const train_options_t *options = run->options;
  const uint64_t integers[] = {options->steps,
                               (uint64_t)options->batch,
                               (uint64_t)run->rows,
                               (uint64_t)run->micro_batches,
                               (uint64_t)options->evaluations,
                               train_corpus_digest(run->corpus),
                               options->evaluation_tokens,
                               options->checkpoint != NULL,
                               (uint64_t)options->model.precision,
                               run->scales_loss,
                               run->options->choose_tensor_overlap,
                               options->clip_by_stage,
                               run->loss_scale.good_steps};
  const train_experts_options_t *experts = &options->model.experts;
  const double numbers[] = {
      options->rate,         options->warmup,          options->clip,
      run->loss_scale.scale, experts->capacity_factor, (double)experts->balance,
      (double)experts->z};
  uint64_t digest = train_random_digest(train_store_digest(run->store), integers, sizeof integers);
  digest = train_random_digest(digest, numbers, sizeof numbers);
  digest = train_random_digest(digest, &options->adamw, sizeof options->adamw);
  return train_random_digest(digest, &run->metadata->position, sizeof run->metadata->position);
}

static void initialize_loss_scale(run_t *run) {
  static const train_loss_scale_t first = TRAIN_LOSS_SCALE_INIT, none = TRAIN_LOSS_SCALE_NONE;
  const train_options_t *options = run->options;
  const train_loss_scale_t *saved = &run->metadata->loss_scale;
  run->scales_loss =
      options->loss_scaling || train_policy_of(options->model.precision)->loss_scaling;
  run->loss_scale = !run->scales_loss ? none : saved->scale > 0 ? *saved : first;
}

static coll_status_t initialize(run_t *run) {
  const train_layout_t *layout = train_store_layout(run->store);
  run->context = layout->config.context;
  run->rows = run->options->model.sequences;
  run->micro_batches = run->rows > 0 ? run->options->batch / run->ranks->shares / run->rows : 0;
  initialize_loss_scale(run);
  coll_status_t status = train_group_agree(run->group, check_local(run));
  if (status == COLL_OK) {
    const train_executor_options_t options = {
        .model = run->options->model,
        .micro_batches = run->micro_batches,
        .schedule = run->options->schedule,
        .steps = run_is_asynchronous(run) ? train_longest_span(run->options, run->first_step) : 0,
        .trace = run->options->trace};
    status = train_executor_create(run->store, run->ranks, &options, &run->executor);
  }
  run->metadata->config = layout->config;
  run->metadata->moments = true;
  COLL_TRY(status);
  return train_group_check_same(run->group, digest_of(run), "options or data");
}

coll_status_t train_run(const train_options_t *options, const train_corpus_t *corpus,
                        const train_ranks_t *ranks, const train_observer_t *observer,
                        train_store_t *store, train_metadata_t *metadata, train_result_t *result) {
  static const train_observer_t no_observer = {0};
  run_t run = {.options = options,
               .corpus = corpus,
               .ranks = ranks,
               .group = &ranks->all,
               .store = store,
               .metadata = metadata,
               .first_step = metadata->position.step,
               .chooses_overlap = options->choose_tensor_overlap && ranks->axes.tensor != NULL};
  train_result_t final = {0};
  coll_status_t status = initialize(&run);
  if (observer == NULL) observer = &no_observer;
  run.started_ns = base_clock_now_ns();
  if (status == COLL_OK) {
    status = (run_is_asynchronous(&run) ? run_asynchronous : run_loop)(&run, observer, &final);
  }
  if (status == COLL_OK && observer->on_end != NULL) {
    observer->on_end(observer->context, train_executor_model(run.executor));
  }
  status = train_executor_fail(run.executor, status);
  train_executor_destroy(run.executor);
  if (status == COLL_OK) *result = final;
  return status;
}
