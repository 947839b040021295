/*
 * float32 that the store sends as bfloat16, in layouts: gradients and losses differ from those of
 * one rank by what the rounding explains, and the data axis carries half of the bytes of what is
 * narrowed. No other axis carries less: activations have the type of the precision.
 *
 * bfloat16 has 8 bits: a number is rounded by at most 2^-9 of it.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>

#include "libtrain/layouts/job.h"
#include "libtrain/norms.h"

#define STEPS 4
#define ROUNDING 0x1p-9

static int at_least_1(int value) {
  return value > 0 ? value : 1;
}

static int data_ranks(const layout_trial_t *trial) {
  return at_least_1(trial->dp) * at_least_1(trial->cp);
}

/* ---- losses and gradients ---- */

/* The relative error of a gradient g, at most. N parts that have nothing in common have norms of
 * |g| / sqrt(N), and are rounded; then each of the N - 1 partial sums, at most |g|. From stage 2 on
 * that is done to the gradient of every micro-batch, |g| / sqrt(micro-batches) likewise. */
static double gradient_error(const layout_trial_t *trial) {
  int ranks = data_ranks(trial), sums = trial->zero >= 2 ? at_least_1(trial->micro_batches) : 1;
  return ranks > 1 ? (sqrt(ranks) + ranks - 1) * sqrt(sums) * ROUNDING : 0;
}

/* To first order, the error of the loss if all weights are rounded in the worst direction. Only
 * passes of ZeRO stage 3 read rounded weights. */
static double weight_error(const layout_trial_t *trial, const layout_outcome_t *expected) {
  double sum = 0;
  if (trial->zero < 3) return 0;
  for (size_t i = 0; i < expected->layout->parameter_count; i++) {
    sum += fabs((double)expected->gradients[i] * (double)expected->weights[i]);
  }
  return sum * ROUNDING;
}

/* What training has gained is off by as much as the gradients that it has followed. */
static void check_losses(const char *text, const layout_trial_t *trial, const layout_outcome_t *got,
                         const layout_outcome_t *expected) {
  double all = fabs(expected->losses[0] - expected->losses[STEPS - 1]);
  for (int step = 0; step < STEPS; step++) {
    double gained = step > 0 ? all : 0;
    double tolerance = gradient_error(trial) * gained + weight_error(trial, expected) +
                       1e-5 * expected->losses[step];
    cr_assert(fabs(got->losses[step] - expected->losses[step]) <= tolerance,
              "%s: loss %.6f at step %d, not %.6f; allowed are %.1e", text, got->losses[step],
              step + 1, expected->losses[step], tolerance);
  }
}

/* Gradients of stage 3 are also those of rounded weights. What was rounded is not exact. */
static void check_gradients(const char *text, const layout_trial_t *trial,
                            const layout_outcome_t *got, const layout_outcome_t *expected) {
  size_t count = expected->layout->parameter_count;
  double apart =
      norm_of_difference(got->gradients, expected->gradients, count) / expected->norms[0];
  double tolerance = gradient_error(trial) + (trial->zero == 3 ? 8 * ROUNDING : 0);
  cr_assert(apart <= tolerance + 1e-6, "%s: gradients are %.1e apart, allowed are %.1e", text,
            apart, tolerance);
  if (data_ranks(trial) > 1) cr_assert_gt(apart, ROUNDING / 4, "%s: %.1e", text, apart);
}

/* ---- bytes ---- */

/* Of what is sent per step and element, the bytes in float32 and with narrow gradients. Stage 2
 * sums the gradients of every micro-batch; stage 3 gathers narrow weights for every pass. */
static void bytes_of(const layout_trial_t *trial, uint64_t *wide, uint64_t *narrow) {
  uint64_t sums = trial->zero == 2 ? (uint64_t)at_least_1(trial->micro_batches) : 1;
  bool only_narrow = (trial->zero == 0 && !trial->naive) || trial->zero == 3;
  *wide = only_narrow ? 4 : 4 * sums + 4;
  *narrow = only_narrow ? 2 : 2 * sums + 4;
}

static void check_bytes(const char *text, const layout_trial_t *trial,
                        const layout_outcome_t *narrow, const layout_outcome_t *wide) {
  uint64_t of_wide, of_narrow;
  bytes_of(trial, &of_wide, &of_narrow);
  for (int axis = 0; axis < TRAIN_TRAFFIC_AXES; axis++) {
    uint64_t expected = wide->wired[axis], counted = wide->counted[axis];
    if (axis == TRAIN_TRAFFIC_DATA) {
      expected = expected / of_wide * of_narrow;
      counted = counted / of_wide * of_narrow;
    }
    cr_expect(narrow->wired[axis] == expected && narrow->counted[axis] == counted,
              "%s, %s: %" PRIu64 " bytes sent, not %" PRIu64 "; %" PRIu64 " counted, not %" PRIu64,
              text, train_traffic_names[axis], narrow->wired[axis], expected, narrow->counted[axis],
              counted);
  }
  bool sends = data_ranks(trial) > 1;
  cr_expect((narrow->wired[TRAIN_TRAFFIC_DATA] > 0) == sends, "%s", text);
}

/* ---- the layouts ---- */

/* Stages that update at different times are compared with float32 in the same layout, because one
 * rank has no such schedule. */
static void check_asynchronous(layout_trial_t trial) {
  static const train_model_config_t untied = {
      .vocabulary = 61, .context = 32, .layers = 4, .heads = 4, .width = 64, .untied = 1};
  char text[200];
  trial.config = &untied;
  trial.steps = STEPS;
  layout_outcome_t wide = layout_train(&trial);
  trial.bfloat16_wire = true;
  layout_outcome_t narrow = layout_train(&trial);
  layout_trial_text(&trial, text);
  check_losses(text, &trial, &narrow, &wide);
  double apart = norm_of_difference(narrow.weights, wide.weights, wide.layout->parameter_count);
  cr_assert(apart > 0, "%s: nothing was rounded", text);
  layout_outcome_free(&wide);
  layout_outcome_free(&narrow);
}

static void check(layout_trial_t trial, const layout_outcome_t *expected) {
  char text[200];
  trial.replay = expected->routing;
  trial.steps = STEPS;
  trial.rings = true;
  layout_outcome_t wide = layout_train(&trial);
  trial.bfloat16_wire = true;
  layout_outcome_t narrow = layout_train(&trial);
  layout_trial_text(&trial, text);
  check_losses(text, &trial, &narrow, expected);
  check_gradients(text, &trial, &narrow, expected);
  check_bytes(text, &trial, &narrow, &wide);
  layout_outcome_free(&wide);
  layout_outcome_free(&narrow);
}

static void check_all(const train_model_config_t *config, const layout_trial_t *trials,
                      size_t count) {
  layout_outcome_t expected = layout_train(&(layout_trial_t){.config = config, .steps = STEPS});
  for (size_t i = 0; i < count; i++) {
    layout_trial_t trial = trials[i];
    trial.config = config;
    check(trial, &expected);
  }
  layout_outcome_free(&expected);
}

#define CHECK(config, ...)                                     \
  do {                                                         \
    const layout_trial_t trials[] = {__VA_ARGS__};             \
    check_all(config, trials, sizeof trials / sizeof *trials); \
  } while (0)
#define SP .sequence_parallel = true
#define ULYSSES .context_kind = TRAIN_CONTEXT_ULYSSES
#define BATCHES(count) .micro_batches = (count)

Test(bfloat16_wire, data) {
  CHECK(NULL, {.dp = 2}, {.dp = 2, .naive = true}, {.dp = 4, .zero = 1, BATCHES(2)},
        {.dp = 2, .zero = 2, BATCHES(2)}, {.dp = 2, .zero = 3, BATCHES(2)});
}

/* Without data ranks nothing is narrowed. */
Test(bfloat16_wire, tensor) {
  CHECK(NULL, {.tp = 2, SP}, {.dp = 2, .tp = 2, .zero = 1}, {.dp = 2, .tp = 2, SP, .zero = 3});
}

Test(bfloat16_wire, context) {
  CHECK(NULL, {.cp = 2}, {.dp = 2, .cp = 2, ULYSSES, .zero = 2}, {.cp = 2, .tp = 2, .zero = 3});
}

Test(bfloat16_wire, pipeline) {
  CHECK(NULL, {.dp = 2, .pp = 2, BATCHES(4), .schedule = TRAIN_SCHEDULE_1F1B},
        {.dp = 2, .tp = 2, .pp = 2, .zero = 1, BATCHES(4), .schedule = TRAIN_SCHEDULE_ZB_H1});
}

Test(bfloat16_wire, asynchronous) {
  check_asynchronous((layout_trial_t){.dp = 2, .pp = 2, .schedule = TRAIN_SCHEDULE_PIPEDREAM});
  check_asynchronous((layout_trial_t){
      .dp = 2, .pp = 2, BATCHES(2), .zero = 1, .schedule = TRAIN_SCHEDULE_PIPEDREAM_2BW});
}

Test(bfloat16_wire, experts) {
  CHECK(&layout_two_of_eight, {.dp = 4, .ep = 2}, {.dp = 4, .ep = 2, .zero = 1},
        {.dp = 2, .cp = 2, .ep = 2, .zero = 2}, {.dp = 4, .ep = 2, .zero = 3},
        {.dp = 4, .tp = 2, .ep = 2, .etp = 1, .zero = 1});
}
