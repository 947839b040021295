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

#include "base/clock.h"
#include "base/memory.h"
#include "libtrain/common/random.h"
#include "libtrain/data/shuffle.h"
#include "libtrain/files/checkpoint.h"

/* Values summed over the ranks. */
enum { SUM_LOSS, SUM_SQUARES, SUM_PROGRESS, SUM_FAILURES, SUMS };

typedef struct run {
  const train_options_t *options;
  const train_corpus_t *corpus;
  const train_group_t *group;
  train_store_t *store;
  train_metadata_t *metadata;
  train_param_provider_t provider;
  train_model_t *model;
  bool scales_loss;              /* otherwise the scale is always 1 */
  train_loss_scale_t loss_scale; /* of the next step */
  int losses_not_finite;         /* consecutive steps whose loss is not finite */
  int skips_at_minimum;          /* consecutive skipped steps with the minimum loss scale */
  int micro_batches;             /* per step */
  int rows, context;             /* of a micro-batch on this rank */
  int32_t *tokens, *targets;     /* [rows, context] */
  uint64_t first_step;
  uint64_t started_ns, evaluation_ns;
  double comm_ms;
  coll_status_t failure; /* set if this rank cannot read its data */
} run_t;

/* ---- a step ---- */

static double ms_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-6;
}

/* The fraction of the run that is done after this step. */
static double progress_after(const run_t *run, uint64_t step) {
  const train_options_t *options = run->options;
  double by_steps = options->steps > 0 ? (double)step / (double)options->steps : 0;
  double by_time = options->seconds > 0 ? ms_since(run->started_ns) * 1e-3 / options->seconds : 0;
  double progress = by_steps > by_time ? by_steps : by_time;
  return progress < 1 ? progress : 1;
}

/* Reads this rank's rows of the micro-batch. The global batch is divided by rank, then by
 * micro-batch. A rank that cannot read its data continues with zeros until all ranks agree on the
 * failure, because the others wait for its collectives. */
static void read_rows(run_t *run, int micro_batch) {
  const train_position_t *position = &run->metadata->position;
  const train_dataset_t *dataset = &run->corpus->training;
  uint64_t windows = train_dataset_windows(dataset, run->context);
  size_t context = (size_t)run->context;
  int first = (run->group->rank * run->micro_batches + micro_batch) * run->rows;
  for (int row = 0; row < run->rows; row++) {
    int32_t *tokens = run->tokens + (size_t)row * context;
    int32_t *targets = run->targets + (size_t)row * context;
    uint64_t draw = position->sequences + (uint64_t)(first + row);
    uint64_t offset = train_shuffle_window(position->seed, windows, draw) * context;
    coll_status_t status = train_dataset_sequence(dataset, offset, run->context, tokens, targets);
    if (status == COLL_OK) continue;
    run->failure = status;
    memset(tokens, 0, context * sizeof *tokens);
    memset(targets, 0, context * sizeof *targets);
  }
}

/* Computes the gradients of the mean loss over the global batch, multiplied by the loss scale.
 * *loss is this rank's part of the mean loss, not multiplied by it. */
static coll_status_t compute_gradients(run_t *run, double *loss) {
  const train_options_t *options = run->options;
  float mean = 1.0f / ((float)options->batch * (float)run->context);
  float scale = mean * (float)run->loss_scale.scale;
  double sum = 0;
  train_store_begin(run->store, run->micro_batches);
  for (int micro_batch = 0; micro_batch < run->micro_batches; micro_batch++) {
    double micro_loss;
    read_rows(run, micro_batch);
    COLL_TRY(train_model_forward_backward(run->model, &run->provider, run->tokens, run->targets,
                                          run->rows, run->context, scale, &micro_loss));
    sum += micro_loss;
  }
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

static coll_status_t fail_not_finite(const run_t *run, const train_step_t *step) {
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
  const train_layout_t *layout = train_store_layout(run->store);
  int index;
  train_kind_t kind;
  COLL_TRY(train_store_find_not_finite(run->store, &index, &kind));
  if (index < 0) return COLL_OK; /* only the loss: the text stays "" */
  const train_tensor_t *tensor = &layout->tensors[index];
  char layer[32] = "";
  if (tensor->unit > 0) snprintf(layer, sizeof layer, " (layer %d)", tensor->unit - 1);
  bool weight = kind == TRAIN_KIND_WEIGHTS;
  snprintf(text, size,
           weight ? "the values of %s%s are not finite"
                  : "the gradient of %s%s is the first that is not finite",
           tensor->name, layer);
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
    return fail_not_finite(run, step);
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

static void advance_position(run_t *run) {
  const train_options_t *options = run->options;
  train_position_t *position = &run->metadata->position;
  position->step++;
  position->micro_steps += (uint64_t)run->micro_batches;
  position->sequences += (uint64_t)options->batch;
  position->tokens += (uint64_t)options->batch * (uint64_t)run->context;
}

/* printf shows the sign of a NaN, which has no meaning. */
static double without_nan_sign(double value) {
  return isnan(value) ? (double)NAN : value;
}

/* One step: gradients, the values common to all ranks, and the optimizer step. All ranks make the
 * same decision to skip it, because the sums have the same bits on all. */
static coll_status_t run_step(run_t *run, train_step_t *result) {
  const train_options_t *options = run->options;
  double sums[SUMS] = {0};
  COLL_TRY(compute_gradients(run, &sums[SUM_LOSS]));
  COLL_TRY(train_store_finish(run->store, &sums[SUM_SQUARES]));
  uint64_t step = run->metadata->position.step + 1;
  if (run->group->rank == 0) sums[SUM_PROGRESS] = progress_after(run, step);
  sums[SUM_FAILURES] = run->failure != COLL_OK;
  uint64_t waiting_ns = base_clock_now_ns();
  COLL_TRY(train_group_sum_doubles(run->group, sums, SUMS));
  result->exposed_comm_ms = ms_since(waiting_ns);
  if (sums[SUM_FAILURES] > 0) return train_group_agree(run->group, run->failure);
  result->step = step;
  result->progress = sums[SUM_PROGRESS];
  result->loss = without_nan_sign(sums[SUM_LOSS]);
  result->loss_scale = run->loss_scale.scale;
  result->gradient_norm = without_nan_sign(sqrt(sums[SUM_SQUARES])) / result->loss_scale;
  result->rate = (double)train_learning_rate_at(options->rate, options->warmup, result->progress);
  result->skipped = !isfinite(result->loss) || !isfinite(result->gradient_norm);
  COLL_TRY(result->skipped ? skip_update(run, result) : update_parameters(run, result));
  update_loss_scale(run, result);
  advance_position(run);
  return COLL_OK;
}

static coll_status_t take_step(run_t *run, train_step_t *result) {
  uint64_t start_ns = base_clock_now_ns();
  uint64_t steps_done = run->metadata->position.step - run->first_step;
  bool serial = !train_store_options(run->store)->comm.overlap || steps_done == 1;
  train_step_t now = {0};
  train_store_set_overlap(run->store, !serial);
  COLL_TRY(run_step(run, &now));
  train_traffic_t traffic = train_store_traffic(run->store);
  double positions = (double)(steps_done + 1) * run->options->batch * run->context;
  now.ms = ms_since(start_ns);
  now.bytes_sent = traffic.bytes_sent;
  now.exposed_comm_ms += (double)traffic.waited_ns * 1e-6;
  if (serial) run->comm_ms = now.exposed_comm_ms;
  now.comm_ms = run->comm_ms;
  now.tokens_per_s = positions / (ms_since(run->started_ns + run->evaluation_ns) * 1e-3);
  *result = now;
  return COLL_OK;
}

/* ---- the run ---- */

static coll_status_t save(const run_t *run) {
  const train_options_t *options = run->options;
  const train_flat_t flat = train_store_flat(run->store);
  if (options->checkpoint == NULL) return COLL_OK;
  const char *path = run->group->rank == 0 ? options->checkpoint : NULL;
  return train_group_agree(run->group, train_checkpoint_write(path, run->metadata, &flat));
}

static coll_status_t evaluate_and_save(run_t *run, train_evaluation_t *evaluation) {
  const train_options_t *options = run->options;
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(train_evaluate(&run->corpus->held_out, options->tokenizer, options->evaluation_tokens,
                          run->group, run->model, &run->provider, evaluation));
  if (!isfinite(evaluation->loss)) return fail_held_out_not_finite(run, evaluation->loss);
  COLL_TRY(save(run));
  run->evaluation_ns += base_clock_now_ns() - start_ns;
  return COLL_OK;
}

static coll_status_t run_loop(run_t *run, const train_observer_t *observer,
                              train_result_t *result) {
  int evaluations = run->options->evaluations, evaluated = 0;
  run->started_ns = base_clock_now_ns();
  while (evaluated < evaluations) {
    COLL_TRY(take_step(run, &result->last));
    if (observer->on_step != NULL) observer->on_step(observer->context, &result->last);
    int evaluations_due = (int)(result->last.progress * evaluations);
    if (evaluations_due <= evaluated) continue;
    evaluated = evaluations_due;
    COLL_TRY(evaluate_and_save(run, &result->held_out));
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
  if (options->batch < 1 || run->micro_batches * run->rows * run->group->size != options->batch) {
    return base_fail(COLL_ERROR_INVALID,
                     "a batch of %d does not split evenly over %d ranks in micro-batches of %d: "
                     "make --batch a multiple of both",
                     options->batch, run->group->size, run->rows);
  }
  if (options->steps == 0 && !(options->seconds > 0)) {
    return base_fail(COLL_ERROR_INVALID, "the run has no end: give --steps or --seconds");
  }
  if (options->steps > 0 && step >= options->steps) {
    return base_fail(COLL_ERROR_INVALID,
                     "the checkpoint is already at step %llu: raise --steps %llu",
                     (unsigned long long)step, (unsigned long long)options->steps);
  }
  COLL_TRY(train_corpus_check(run->corpus, run->context));
  if (run->group->rank != 0 || options->checkpoint == NULL) return COLL_OK;
  return train_checkpoint_probe(options->checkpoint);
}

static coll_status_t allocate(run_t *run, const train_layout_t *layout) {
  void *memory;
  size_t positions = (size_t)run->rows * (size_t)run->context;
  COLL_TRY(train_model_create(layout, &run->options->model, &run->model));
  COLL_TRY(base_alloc(2 * positions, sizeof(int32_t), "the batch", &memory));
  run->tokens = memory;
  run->targets = run->tokens + positions;
  return COLL_OK;
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
                               run->loss_scale.good_steps};
  const double numbers[] = {options->rate, options->warmup, options->clip, run->loss_scale.scale};
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
  run->micro_batches = run->rows > 0 ? run->options->batch / run->group->size / run->rows : 0;
  initialize_loss_scale(run);
  coll_status_t status = check_local(run);
  if (status == COLL_OK) status = allocate(run, layout);
  run->metadata->config = layout->config;
  run->metadata->moments = true;
  COLL_TRY(train_group_agree(run->group, status));
  return train_group_check_same(run->group, digest_of(run), "options or data");
}

coll_status_t train_run(const train_options_t *options, const train_corpus_t *corpus,
                        const train_group_t *group, const train_observer_t *observer,
                        train_store_t *store, train_metadata_t *metadata, train_result_t *result) {
  static const train_observer_t no_observer = {0};
  run_t run = {.options = options,
               .corpus = corpus,
               .group = group,
               .store = store,
               .metadata = metadata,
               .provider = train_store_provider(store),
               .first_step = metadata->position.step};
  train_result_t final = {0};
  coll_status_t status = initialize(&run);
  if (observer == NULL) observer = &no_observer;
  if (status == COLL_OK) status = run_loop(&run, observer, &final);
  if (status == COLL_OK && observer->on_end != NULL) {
    observer->on_end(observer->context, run.model);
  }
  free(run.tokens);
  train_model_destroy(run.model);
  if (status == COLL_OK) *result = final;
  return status;
}
