/*
 * Training with asynchronous schedules. Stages update their weights at different times, each with
 * the norm of its own gradients, so ranks agree on nothing within a span: the steps between two
 * evaluations. At its end the pipeline is empty, and one all-reduce combines the values of all its
 * steps.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "libtrain/trainer_state.h"

typedef struct span {
  run_t *run;
  int steps;
  uint64_t began_ns;
  float mean;                                  /* of a position in a step's loss */
  double *sums;                                /* [steps, SUMS] */
  uint64_t *ended_ns;                          /* [steps] */
  train_traffic_t traffic[TRAIN_TRAFFIC_AXES]; /* of this rank, in all steps */
} span_t;

/* ---- options ---- */

bool run_is_asynchronous(const run_t *run) {
  return run->ranks->stages > 1 && train_schedule_is_asynchronous(run->options->schedule);
}

/* What is wrong with the options, and what to give instead; NULL: nothing. */
static const char *objection(const run_t *run) {
  const train_options_t *options = run->options;
  if (!train_store_layout(run->store)->config.untied) {
    return "the first and the last would have different token tables at the same time: give "
           "--untied";
  }
  if (!options->clip_by_stage) {
    return "the norm of all gradients of a step is not known when the first of them updates: give "
           "--clip-by stage";
  }
  if (run->scales_loss) {
    return "they cannot skip a step together when its gradients overflow, as loss scaling does: "
           "give --precision bf16";
  }
  if (options->steps == 0 || options->seconds > 0) {
    return "the pipeline empties before evaluations only, and time cannot tell when they are due: "
           "give --steps without --seconds";
  }
  if (train_store_options(run->store)->stage >= 2) {
    return "older versions of the weights are copies of all of them: give --zero 1";
  }
  return NULL;
}

coll_status_t run_check_asynchronous(const run_t *run) {
  const char *schedule = train_schedule_names[run->options->schedule];
  if (!run_is_asynchronous(run)) {
    if (!run->options->clip_by_stage) return COLL_OK;
    return base_fail(COLL_ERROR_INVALID,
                     "--clip-by stage makes results depend on the layout and is for stages that "
                     "update at different times: give --pp and --schedule pipedream or "
                     "pipedream-2bw, or --clip-by global");
  }
  const char *wrong = objection(run);
  if (wrong == NULL) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "with --schedule %s stages update at different times, and %s, or --schedule 1f1b", schedule,
      wrong);
}

/* Steps after `step` up to the next evaluation. */
static int span_after(const train_options_t *options, uint64_t step) {
  double evaluations = options->evaluations, steps = (double)options->steps;
  uint64_t end = step + 1;
  int done = (int)((double)step / steps * evaluations);
  while (end < options->steps && (int)((double)end / steps * evaluations) == done) end++;
  return (int)(end - step);
}

int train_longest_span(const train_options_t *options, uint64_t first_step) {
  int longest = 1;
  for (uint64_t step = first_step; step < options->steps;) {
    int span = span_after(options, step);
    if (span > longest) longest = span;
    step += (uint64_t)span;
  }
  return longest;
}

/* ---- a stage's step ---- */

/* The ranks that hold the stage together count each of its elements once. */
static coll_status_t norm_of_stage(const run_t *run, double squares, double *norm) {
  const train_axis_t *tensor = run->ranks->axes.tensor;
  COLL_TRY(train_group_sum_doubles(&run->ranks->data, &squares, 1));
  if (tensor != NULL) COLL_TRY(train_group_sum_doubles(&tensor->group, &squares, 1));
  *norm = sqrt(squares);
  return COLL_OK;
}

static double rate_of(const run_t *run, uint64_t step) {
  const train_options_t *options = run->options;
  return (double)train_learning_rate_at(options->rate, options->warmup, run_progress(run, step));
}

static void add_traffic(span_t *span) {
  train_traffic_t traffic[TRAIN_TRAFFIC_AXES];
  train_executor_traffic(span->run->executor, traffic);
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES; axis++) {
    span->traffic[axis].bytes_sent += traffic[axis].bytes_sent;
    span->traffic[axis].waited_ns += traffic[axis].waited_ns;
  }
}

/* For train_updates_t. A stage whose norm is not finite keeps its weights; the run ends with the
 * span. */
static coll_status_t end_step(void *context, int index, double loss) {
  span_t *span = context;
  run_t *run = span->run;
  const train_options_t *options = run->options;
  const train_position_t *position = &run->metadata->position;
  uint64_t step = position->step + (uint64_t)index + 1;
  double *sums = &span->sums[(size_t)index * SUMS], norm;
  sums[SUM_LOSS] = loss * (double)span->mean;
  COLL_TRY(train_store_finish(run->store, &sums[SUM_SQUARES]));
  run_add_routed(run, sums);
  COLL_TRY(norm_of_stage(run, sums[SUM_SQUARES], &norm));
  uint64_t update_ns = train_trace_now(options->trace);
  if (isfinite(norm)) {
    COLL_TRY(train_store_update(run->store, &options->adamw,
                                train_gradient_clip(norm, options->clip), (float)rate_of(run, step),
                                step - position->skipped));
  }
  train_trace_action(options->trace, TRAIN_TRACE_UPDATE, update_ns);
  add_traffic(span);
  span->ended_ns[index] = base_clock_now_ns();
  return COLL_OK;
}

/* ---- a span ---- */

static double ms_between(uint64_t from_ns, uint64_t to_ns) {
  return (double)(to_ns - from_ns) * 1e-6;
}

/* What is known of a step once the span has ended. Traffic is the mean of the span: when it begins
 * and when it ends, stages send less. */
static train_step_t describe(const span_t *span, int index) {
  const run_t *run = span->run;
  const double *sums = &span->sums[(size_t)index * SUMS];
  uint64_t step = run->metadata->position.step + 1;
  train_step_t described = {.step = step,
                            .progress = run_progress(run, step),
                            .loss = run_without_nan_sign(sums[SUM_LOSS]),
                            .gradient_norm = run_without_nan_sign(sqrt(sums[SUM_SQUARES])),
                            .rate = rate_of(run, step),
                            .loss_scale = 1,
                            .next_loss_scale = 1};
  uint64_t before_ns = index > 0 ? span->ended_ns[index - 1] : span->began_ns;
  double trained_ms = ms_between(run->started_ns + run->evaluation_ns, span->ended_ns[index]);
  double positions = (double)(step - run->first_step) * run->options->batch * run->context;
  described.ms = ms_between(before_ns, span->ended_ns[index]);
  described.tokens_per_s = positions / (trained_ms * 1e-3);
  run_describe_routed(run, sums, &described);
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES; axis++) {
    train_traffic_t *traffic = &described.traffic[axis];
    traffic->bytes_sent = span->traffic[axis].bytes_sent / (uint64_t)span->steps;
    traffic->waited_ns = span->traffic[axis].waited_ns / (uint64_t)span->steps;
    described.bytes_sent += traffic->bytes_sent;
    described.exposed_comm_ms += (double)traffic->waited_ns * 1e-6;
  }
  return described;
}

/* Weights cannot be taken back to before the step. */
static coll_status_t report(span_t *span, const train_observer_t *observer, train_step_t *last) {
  run_t *run = span->run;
  for (int index = 0; index < span->steps; index++) {
    *last = describe(span, index);
    if (!isfinite(last->loss) || !isfinite(last->gradient_norm)) {
      return run_fail_not_finite(run, last);
    }
    run_advance(run);
    if (observer->on_step != NULL) observer->on_step(observer->context, last);
  }
  return COLL_OK;
}

static coll_status_t run_span(span_t *span, const train_observer_t *observer, train_step_t *last) {
  run_t *run = span->run;
  const train_rows_t rows = {.read = run_read_rows, .context = run};
  const train_updates_t updates = {.update = end_step, .context = span};
  size_t count = (size_t)span->steps * SUMS;
  COLL_TRY(train_executor_steps(run->executor, span->steps, &rows, span->mean, &updates));
  span->sums[SUM_FAILURES] = run->failure != COLL_OK;
  uint64_t waiting_ns = train_trace_now(run->options->trace);
  COLL_TRY(train_group_sum_doubles(run->group, span->sums, count));
  train_trace_action(run->options->trace, TRAIN_TRACE_SUMS, waiting_ns);
  if (span->sums[SUM_FAILURES] > 0) return train_group_agree(run->group, run->failure);
  return report(span, observer, last);
}

static coll_status_t take_span(run_t *run, const train_observer_t *observer, train_step_t *last) {
  span_t span = {.run = run,
                 .steps = span_after(run->options, run->metadata->position.step),
                 .began_ns = base_clock_now_ns(),
                 .mean = 1.0f / ((float)run->options->batch * (float)run->context)};
  size_t steps = (size_t)span.steps;
  coll_status_t status =
      base_alloc(steps * SUMS, sizeof(double), "the values of steps", (void **)&span.sums);
  if (status == COLL_OK) {
    status = base_alloc(steps, sizeof(uint64_t), "the values of steps", (void **)&span.ended_ns);
  }
  status = train_group_agree(run->group, status);
  if (status == COLL_OK) status = run_span(&span, observer, last);
  free(span.ended_ns);
  free(span.sums);
  return status;
}

coll_status_t run_asynchronous(run_t *run, const train_observer_t *observer,
                               train_result_t *result) {
  train_executor_set_overlap(run->executor, train_store_options(run->store)->comm.overlap);
  while (run->metadata->position.step < run->options->steps) {
    COLL_TRY(take_span(run, observer, &result->last));
    COLL_TRY(run_evaluate_and_save(run, &result->held_out));
    if (observer->on_evaluation == NULL) continue;
    observer->on_evaluation(observer->context, &result->last, &result->held_out);
  }
  return COLL_OK;
}
