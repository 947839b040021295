/*
 * The training loop. Behind the gradients, in the same array, travel the loss and rank 0's clock,
 * so that the one allreduce of a step also makes all ranks see the same loss and stop together.
 */
#include "libtrain/trainer.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "libtrain/random.h"

/* What follows the gradients in the reduced array. */
enum { TAIL_LOSS, TAIL_PROGRESS, TAIL_FLOATS };

typedef struct run {
  const train_options_t *options;
  const train_data_t *data;
  const train_team_t *team;
  train_state_t *state;
  train_model_t *model;
  train_arena_t arena; /* of the state's parameters and the gradients below */
  train_source_t source;
  int rows_here, context;
  float *gradients;          /* [parameter_count + TAIL_FLOATS], shared with the other ranks */
  int32_t *tokens, *targets; /* [rows_here, context] */
  uint64_t first_step;
  uint64_t started_ns, evaluating_ns;
} run_t;

/* ---- evaluation ---- */

static size_t windows_in(const train_text_t *text, size_t bytes, int context) {
  size_t most = (text->count - 1) / (size_t)context, wanted = bytes / (size_t)context;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

/* Sums the losses of windows rank, rank + size, ... into sums[0] and counts bytes in sums[1]. */
static coll_status_t evaluate_share(const train_text_t *text, size_t windows,
                                    const train_team_t *team, train_model_t *model,
                                    const train_source_t *source, int32_t *tokens, double sums[2]) {
  int context = model->layout->config.context, sequences = model->options.sequences;
  int32_t *targets = tokens + (size_t)sequences * (size_t)context;
  size_t room = text->count - 1 - (size_t)context;
  size_t stride = windows > 1 ? room / (windows - 1) : 0;
  size_t window = (size_t)team->rank;
  while (window < windows) {
    int rows = 0;
    double loss;
    for (; rows < sequences && window < windows; rows++, window += (size_t)team->size) {
      size_t at = (size_t)rows * (size_t)context;
      train_data_sequence(text, window * stride, context, tokens + at, targets + at);
    }
    COLL_TRY(train_model_loss(model, source, tokens, targets, rows, context, &loss));
    sums[0] += loss;
    sums[1] += (double)rows * context;
  }
  return COLL_OK;
}

coll_status_t train_evaluate(const train_text_t *text, size_t bytes, const train_team_t *team,
                             train_model_t *model, const train_source_t *source,
                             train_evaluation_t *evaluation) {
  int context = model->layout->config.context;
  size_t positions = (size_t)model->options.sequences * (size_t)context;
  size_t windows = windows_in(text, bytes, context);
  double sums[2] = {0};
  void *memory = NULL;
  coll_status_t status = base_alloc(2 * positions, sizeof(int32_t), "the evaluation", &memory);
  COLL_TRY(train_team_agree(team, status));
  status = evaluate_share(text, windows, team, model, source, memory, sums);
  free(memory);
  COLL_TRY(status);
  COLL_TRY(train_team_sum_doubles(team, sums, 2));
  *evaluation = (train_evaluation_t){.loss = sums[0] / sums[1], .bytes = (uint64_t)sums[1]};
  return COLL_OK;
}

/* ---- a step ---- */

static double seconds_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-9;
}

/* How much of the run is done once this step is. */
static double progress_after(const run_t *run, uint64_t step) {
  const train_options_t *options = run->options;
  double by_steps = options->steps > 0 ? (double)step / (double)options->steps : 0;
  double by_time = options->seconds > 0 ? seconds_since(run->started_ns) / options->seconds : 0;
  double progress = by_steps > by_time ? by_steps : by_time;
  return progress < 1 ? progress : 1;
}

/* The gradients of this rank's rows, divided by the positions of the global batch. */
static coll_status_t compute_gradients(run_t *run) {
  const train_options_t *options = run->options;
  double loss;
  float scale = 1.0f / ((float)options->batch * (float)run->context);
  for (int row = 0; row < run->rows_here; row++) {
    size_t at = (size_t)row * (size_t)run->context;
    size_t offset = train_data_offset(options->seed, run->state->step, options->batch,
                                      run->team->rank * run->rows_here + row,
                                      run->data->training.count, run->context);
    train_data_sequence(&run->data->training, offset, run->context, run->tokens + at,
                        run->targets + at);
  }
  train_arena_begin(&run->arena);
  COLL_TRY(train_model_forward_backward(run->model, &run->source, run->tokens, run->targets,
                                        run->rows_here, run->context, scale, &loss));
  float *tail = run->gradients + run->state->layout->parameter_count;
  tail[TAIL_LOSS] = (float)(loss * (double)scale);
  tail[TAIL_PROGRESS] =
      run->team->rank == 0 ? (float)progress_after(run, run->state->step + 1) : 0.0f;
  return COLL_OK;
}

static coll_status_t take_step(run_t *run, train_step_t *taken) {
  const train_options_t *options = run->options;
  train_state_t *state = run->state;
  size_t count = state->layout->parameter_count;
  COLL_TRY(compute_gradients(run));
  COLL_TRY(train_team_sum_floats(run->team, run->gradients, count + TAIL_FLOATS));
  double loss = (double)run->gradients[count + TAIL_LOSS];
  double progress = (double)run->gradients[count + TAIL_PROGRESS];
  double norm = train_gradient_norm(run->gradients, count);
  if (!isfinite(loss) || !isfinite(norm)) {
    return train_team_agree(
        run->team, base_fail(COLL_ERROR_INVALID,
                             "the loss is no longer a number at step %llu (loss %g, gradient norm "
                             "%g): lower --lr; the last checkpoint was left as it is",
                             (unsigned long long)state->step + 1, loss, norm));
  }
  float rate = train_rate_at(options->rate, options->warmup, progress);
  state->step++;
  train_adamw_step(&options->adamw, state->layout, 0, count, run->gradients,
                   train_gradient_clip(norm, options->clip), rate, state->step, state->parameters,
                   state->first_moments, state->second_moments);
  double positions = (double)(state->step - run->first_step) * options->batch * run->context;
  double training_s = seconds_since(run->started_ns + run->evaluating_ns);
  *taken = (train_step_t){.step = state->step,
                          .progress = progress,
                          .loss = loss,
                          .rate = (double)rate,
                          .gradient_norm = norm,
                          .tokens_per_s = positions / training_s};
  return COLL_OK;
}

/* ---- the run ---- */

static coll_status_t evaluate_and_save(run_t *run, train_evaluation_t *evaluation) {
  const train_options_t *options = run->options;
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(train_evaluate(&run->data->held_out, options->evaluation_bytes, run->team, run->model,
                          &run->source, evaluation));
  coll_status_t status = COLL_OK;
  if (run->team->rank == 0 && options->checkpoint != NULL) {
    status = train_checkpoint_save(options->checkpoint, run->state);
  }
  COLL_TRY(train_team_agree(run->team, status));
  run->evaluating_ns += base_clock_now_ns() - start_ns;
  return COLL_OK;
}

static coll_status_t run_loop(run_t *run, const train_observer_t *observer,
                              train_result_t *result) {
  int evaluations = run->options->evaluations, evaluated = 0;
  run->started_ns = base_clock_now_ns();
  while (evaluated < evaluations) {
    COLL_TRY(take_step(run, &result->last));
    if (observer->on_step != NULL) observer->on_step(observer->context, &result->last);
    int due = (int)(result->last.progress * evaluations);
    if (due <= evaluated) continue;
    evaluated = due;
    COLL_TRY(evaluate_and_save(run, &result->held_out));
    if (observer->on_evaluation != NULL) {
      observer->on_evaluation(observer->context, &result->last, &result->held_out);
    }
  }
  return COLL_OK;
}

/* What one rank can find out on its own before the first step. */
static coll_status_t check_here(const run_t *run) {
  const train_options_t *options = run->options;
  if (options->steps == 0 && !(options->seconds > 0)) {
    return base_fail(COLL_ERROR_INVALID, "a run without end: give --steps or --seconds");
  }
  if (options->steps > 0 && run->state->step >= options->steps) {
    return base_fail(COLL_ERROR_INVALID,
                     "the checkpoint is at step %llu already: raise --steps %llu",
                     (unsigned long long)run->state->step, (unsigned long long)options->steps);
  }
  COLL_TRY(train_data_check(run->data, run->context));
  if (run->team->rank != 0 || options->checkpoint == NULL) return COLL_OK;
  return train_checkpoint_probe(options->checkpoint);
}

static coll_status_t allocate(run_t *run) {
  void *memory;
  const train_layout_t *layout = run->state->layout;
  const train_model_options_t model_options = {.sequences = run->rows_here};
  size_t positions = (size_t)run->rows_here * (size_t)run->context;
  COLL_TRY(train_model_create(layout, &model_options, &run->model));
  COLL_TRY(base_alloc(2 * positions, sizeof(int32_t), "the batch", &memory));
  run->tokens = memory;
  run->targets = run->tokens + positions;
  size_t floats = layout->parameter_count + TAIL_FLOATS;
  coll_status_t status = coll_mem_alloc(floats * sizeof(float), &memory);
  if (status != COLL_OK) return base_fail(status, "%s", coll_last_error(NULL));
  run->gradients = memory;
  run->arena = (train_arena_t){
      .layout = layout, .parameters = run->state->parameters, .gradients = run->gradients};
  run->source = train_arena_source(&run->arena);
  return COLL_OK;
}

/* What all ranks must have in common to compute the same thing. */
static uint64_t digest_of(const run_t *run) {
  const train_options_t *options = run->options;
  const train_data_t *data = run->data;
  const uint64_t integers[] = {options->steps,       (uint64_t)options->batch,
                               options->seed,        (uint64_t)options->evaluations,
                               data->training.count, data->held_out.count,
                               run->state->step,     options->evaluation_bytes};
  const double numbers[] = {options->rate, options->warmup, options->clip};
  uint64_t digest = train_random_digest(0, integers, sizeof integers);
  digest = train_random_digest(digest, numbers, sizeof numbers);
  digest = train_random_digest(digest, &options->adamw, sizeof options->adamw);
  return train_random_digest(digest, &run->state->layout->config, sizeof(train_model_config_t));
}

static coll_status_t begin(run_t *run) {
  size_t count = run->state->layout->parameter_count;
  coll_status_t status = train_team_share(run->team, run->options->batch, &run->rows_here);
  if (status == COLL_OK) status = check_here(run);
  if (status == COLL_OK) status = allocate(run);
  COLL_TRY(train_team_agree(run->team, status));
  COLL_TRY(train_team_check_same(run->team, digest_of(run), "options or data"));
  COLL_TRY(train_team_broadcast_floats(run->team, run->state->parameters, count, 0));
  COLL_TRY(train_team_broadcast_floats(run->team, run->state->first_moments, count, 0));
  return train_team_broadcast_floats(run->team, run->state->second_moments, count, 0);
}

coll_status_t train_run(const train_options_t *options, const train_data_t *data,
                        const train_team_t *team, const train_observer_t *observer,
                        train_state_t *state, train_result_t *result) {
  static const train_observer_t nobody = {0};
  run_t run = {.options = options,
               .data = data,
               .team = team,
               .state = state,
               .context = state->layout->config.context,
               .first_step = state->step};
  train_result_t reached = {0};
  coll_status_t status = begin(&run);
  if (status == COLL_OK) {
    status = run_loop(&run, observer != NULL ? observer : &nobody, &reached);
  }
  if (run.gradients != NULL) coll_mem_free(run.gradients);
  free(run.tokens);
  train_model_destroy(run.model);
  if (status == COLL_OK) *result = reached;
  return status;
}
