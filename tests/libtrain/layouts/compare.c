/* What is compared, and how exactly. */
#include "libtrain/layouts/compare.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/norms.h"

/* Relative, and of weights absolute. */
typedef struct tolerances {
  double loss, norm, weight;
} tolerances_t;

/* Later gradients are those of weights that differ in their last bits. */
static const tolerances_t first_step = {.loss = 1e-5, .norm = 1e-6},
                          later = {.loss = 1e-5, .norm = 1e-5, .weight = 1e-4};

static void compare_number(const char *text, const char *what, double got, double expected,
                           double tolerance) {
  cr_assert(fabs(got - expected) <= tolerance * expected, "%s: %s %.9f, not %.9f", text, what, got,
            expected);
}

static void compare_step(const char *text, int step, const layout_outcome_t *got,
                         const layout_outcome_t *expected, const tolerances_t *tolerances) {
  char what[48];
  snprintf(what, sizeof what, "loss at step %d", step + 1);
  compare_number(text, what, got->losses[step], expected->losses[step], tolerances->loss);
  snprintf(what, sizeof what, "gradient norm at step %d", step + 1);
  compare_number(text, what, got->norms[step], expected->norms[step], tolerances->norm);
}

static void compare_tensor(const char *text, const train_tensor_t *tensor,
                           const layout_outcome_t *got, const layout_outcome_t *expected,
                           double tolerance) {
  size_t at = tensor->offset, count = train_tensor_count(tensor);
  bool qkv_bias = tensor->rows == 1 && strstr(tensor->name, "c_attn.bias") != NULL;
  double norm = norm_of(expected->gradients + at, count);
  double apart = norm_of_difference(got->gradients + at, expected->gradients + at, count);
  cr_assert(apart <= 1e-6 * norm, "%s: the gradient of %s is %.2e of its norm apart", text,
            tensor->name, apart / norm);
  for (size_t i = 0; i < count; i++) {
    bool key_bias = qkv_bias && i >= count / 3 && i < 2 * count / 3;
    double difference = fabs((double)got->weights[at + i] - (double)expected->weights[at + i]);
    cr_assert(key_bias || difference <= tolerance, "%s: element %zu of %s is %g, expected %g", text,
              i, tensor->name, (double)got->weights[at + i], (double)expected->weights[at + i]);
  }
}

void layout_compare(const layout_trial_t *trial, const layout_outcome_t *got,
                    const layout_outcome_t *expected) {
  char text[200];
  layout_trial_text(trial, text);
  for (int step = 0; step < layout_steps(); step++) {
    compare_step(text, step, got, expected, step == 0 ? &first_step : &later);
  }
  compare_number(text, "loss in evaluation", got->evaluated, expected->evaluated, later.loss);
  for (int i = 0; i < got->layout->tensor_count; i++) {
    compare_tensor(text, &got->layout->tensors[i], got, expected, later.weight);
  }
}

void layout_compare_all(const train_model_config_t *config, const layout_trial_t *trials,
                        size_t count) {
  layout_outcome_t expected = layout_train(&(layout_trial_t){.config = config});
  cr_assert(expected.losses[layout_steps() - 1] < 0.97 * expected.losses[0], "it does not learn");
  for (size_t i = 0; i < count; i++) {
    if (!harness_takes(HARNESS_LAYOUTS, (unsigned)i)) continue;
    layout_trial_t trial = trials[i];
    trial.config = config;
    trial.replay = expected.routing;
    layout_outcome_t got = layout_train(&trial);
    layout_compare(&trial, &got, &expected);
    layout_outcome_free(&got);
  }
  layout_outcome_free(&expected);
}
