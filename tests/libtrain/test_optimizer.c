/* Compares AdamW with the paper, on whole arrays and on shards, in every precision; tests
 * stochastic rounding, clipping and the learning rate. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/parallel/optimizer.h"
#include "reference.h"

static const train_model_config_t tiny = {
    .vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 8};

/* Algorithm 2 of the AdamW paper in double precision, one parameter at a time. */
static void reference_adamw(double rate, double decay, double g, int step, double *p, double *m,
                            double *v) {
  *m = 0.9 * *m + 0.1 * g;
  *v = 0.95 * *v + 0.05 * g * g;
  double m_hat = *m / (1 - pow(0.9, step)), v_hat = *v / (1 - pow(0.95, step));
  *p -= rate * (m_hat / (sqrt(v_hat) + 1e-8) + decay * *p);
}

/* The state of a model in a test: parameters, weights and the two moments, each at the start of
 * [count] floats. */
#define STATE 4

/* The arrays of `state` from element `at` on. */
static train_adamw_arrays_t arrays_at(train_precision_t precision, size_t count, float *state,
                                      const float *gradients, size_t at) {
  const train_dtype_t *stored = train_policy_of(precision)->stored;
  return (train_adamw_arrays_t){
      .precision = precision,
      .gradients = gradients + at,
      .parameters = train_dtype_at(stored[TRAIN_KIND_PARAMETERS], state, at),
      .weights = train_precision_copies_weights(precision)
                     ? train_dtype_at(stored[TRAIN_KIND_WEIGHTS], state + count, at)
                     : NULL,
      .first_moments = state + 2 * count + at,
      .second_moments = state + 3 * count + at};
}

/* Five optimizer steps on random gradients, shard by shard. state is zero before. */
static void take_steps(const train_layout_t *layout, train_precision_t precision, size_t shard,
                       float *state) {
  const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  size_t count = layout->parameter_count;
  float *g = malloc(count * sizeof *g);
  random_fill(1, 0.4, count, g);
  train_dtype_narrow(train_precision_stored(precision, TRAIN_KIND_PARAMETERS), g, count, state);
  for (int step = 1; step <= 5; step++) {
    random_fill((uint64_t)step, 0.3, count, g);
    for (size_t at = 0; at < count; at += shard) {
      size_t here = count - at < shard ? count - at : shard;
      const train_adamw_arrays_t arrays = arrays_at(precision, count, state, g, at);
      train_adamw_step(NULL, &adamw, layout, at, here, &arrays, 0.5f, 0.01f * (float)step,
                       (uint64_t)step);
    }
  }
  free(g);
}

Test(optimizer, adamw_matches_the_paper) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  size_t count = layout->parameter_count;
  float *got = calloc(STATE * count, sizeof *got), *g = malloc(count * sizeof *g);
  double *p = malloc(count * sizeof *p), *m = calloc(count, sizeof *m),
         *v = calloc(count, sizeof *v);
  take_steps(layout, TRAIN_PRECISION_FLOAT32, count, got);
  random_fill(1, 0.4, count, g);
  for (size_t i = 0; i < count; i++) p[i] = (double)g[i];
  for (int step = 1; step <= 5; step++) {
    double rate = (double)(0.01f * (float)step);
    random_fill((uint64_t)step, 0.3, count, g);
    for (int t = 0; t < layout->tensor_count; t++) {
      const train_tensor_t *tensor = &layout->tensors[t];
      bool matrix = strstr(tensor->name, "bias") == NULL && strstr(tensor->name, "ln_") == NULL;
      for (size_t i = 0; i < (size_t)(tensor->rows * tensor->columns); i++) {
        size_t at = tensor->offset + i;
        reference_adamw(rate, matrix ? 0.1 : 0, 0.5 * (double)g[at], step, &p[at], &m[at], &v[at]);
      }
    }
  }
  for (size_t i = 0; i < count; i++) {
    cr_assert_float_eq((double)got[i], p[i], 1e-5, "parameter %zu is %g, not %g", i, (double)got[i],
                       p[i]);
  }
  free(got), free(g), free(p), free(m), free(v);
  train_layout_destroy(layout);
}

static void check_shards(const train_layout_t *layout, train_precision_t precision) {
  size_t count = layout->parameter_count, bytes = STATE * count * sizeof(float);
  float *full = calloc(STATE * count, sizeof *full), *sharded = malloc(bytes);
  take_steps(layout, precision, count, full);
  for (size_t shard = 31; shard < count; shard *= 3) {
    memset(sharded, 0, bytes);
    take_steps(layout, precision, shard, sharded);
    cr_assert_arr_eq(full, sharded, bytes, "%s, shards of %zu", train_policy_of(precision)->name,
                     shard);
  }
  free(full), free(sharded);
}

Test(optimizer, shards_give_the_same_result_as_the_full_array) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  for (int i = 0; i < TRAIN_PRECISIONS; i++) check_shards(layout, (train_precision_t)i);
  train_layout_destroy(layout);
}

Test(optimizer, weights_are_the_rounded_parameters) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  size_t count = layout->parameter_count, bytes = count * sizeof(float);
  float *wide = calloc(STATE * count, sizeof *wide), *state = malloc(STATE * bytes);
  uint16_t *rounded = malloc(count * sizeof *rounded);
  take_steps(layout, TRAIN_PRECISION_FLOAT32, count, wide);
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    train_precision_t precision = (train_precision_t)i;
    if (!train_precision_copies_weights(precision)) continue;
    memset(state, 0, STATE * bytes);
    take_steps(layout, precision, count, state);
    train_dtype_narrow(train_precision_stored(precision, TRAIN_KIND_WEIGHTS), wide, count, rounded);
    cr_assert_arr_eq(state, wide, bytes, "%s: parameters", train_policy_of(precision)->name);
    cr_assert_arr_eq(state + count, rounded, count * sizeof *rounded, "%s: weights",
                     train_policy_of(precision)->name);
    cr_assert_arr_eq(state + 2 * count, wide + 2 * count, 2 * bytes, "%s: moments",
                     train_policy_of(precision)->name);
  }
  free(wide), free(state), free(rounded);
  train_layout_destroy(layout);
}

/* ---- stochastic rounding ---- */

static const train_model_config_t wide_config = {
    .vocabulary = 16, .context = 16, .layers = 4, .heads = 1, .width = 64};

static const train_adamw_t no_decay = {.beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f};

/* One step from parameters of 1.5 in bfloat16, whose neighbours are 2^-7 apart, with the same
 * gradient for all. Returns the parameters in float32; *exact is what they are without rounding. */
static float *round_all(const train_layout_t *layout, train_pool_t *pool, uint64_t step, float rate,
                        double *exact) {
  size_t count = layout->parameter_count;
  float *state = calloc(STATE * count, sizeof *state), *g = malloc(count * sizeof *g);
  float *rounded = malloc(count * sizeof *rounded);
  for (size_t i = 0; i < count; i++) rounded[i] = 1.5f, g[i] = 1;
  train_dtype_narrow(TRAIN_BFLOAT16, rounded, count, state);
  train_adamw_arrays_t arrays = arrays_at(TRAIN_PRECISION_BF16_PURE, count, state, g, 0);
  train_adamw_step(pool, &no_decay, layout, 0, count, &arrays, 1, rate, step);
  train_dtype_widen(TRAIN_BFLOAT16, state, count, rounded);
  double m = 0.1 / (1 - pow(0.9, (double)step)), v = 0.05 / (1 - pow(0.95, (double)step));
  *exact = 1.5 - (double)rate * m / sqrt(v);
  free(state), free(g);
  return rounded;
}

/* The number of elements that were rounded down to below 1.5 in one array, or in both, `lag`
 * elements apart. */
static double count_below(const float *one, const float *other, size_t count, size_t lag) {
  size_t below = 0;
  for (size_t i = 0; i + lag < count; i++) below += one[i] < 1.5f && other[i + lag] < 1.5f;
  return (double)below;
}

Test(optimizer, stochastic_rounding_keeps_the_mean) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&wide_config, &layout), COLL_OK);
  size_t count = layout->parameter_count;
  for (int i = 1; i < 8; i++) {
    double exact, sum = 0, spacing = ldexp(1, -7), deviation = 0.5 * spacing / sqrt((double)count);
    float *rounded = round_all(layout, NULL, 1, (float)(i * spacing / 8), &exact);
    for (size_t at = 0; at < count; at++) {
      cr_assert(rounded[at] == 1.5f || rounded[at] == 1.5f - (float)spacing,
                "%.9g is not next to %.9g", (double)rounded[at], exact);
      sum += (double)rounded[at];
    }
    cr_assert_float_eq(sum / (double)count, exact, 5 * deviation, "the mean is %.9g, not %.9g",
                       sum / (double)count, exact);
    free(rounded);
  }
  train_layout_destroy(layout);
}

Test(optimizer, stochastic_rounding_is_independent_of_neighbours_and_steps) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&wide_config, &layout), COLL_OK);
  size_t count = layout->parameter_count;
  double exact, deviation = 0.5 * sqrt((double)count);
  float *one = round_all(layout, NULL, 1, 0x1p-8f, &exact),
        *two = round_all(layout, NULL, 2, 0x1p-8f, &exact);
  double ones = count_below(one, one, count, 0), twos = count_below(two, two, count, 0);
  for (size_t lag = 0; lag <= 16; lag++) {
    cr_assert_float_eq(count_below(one, two, count, lag), ones * twos / (double)count,
                       5 * deviation, "steps 1 and 2, %zu elements apart", lag);
    if (lag == 0) continue;
    cr_assert_float_eq(count_below(one, one, count, lag), ones * ones / (double)count,
                       5 * deviation, "%zu elements apart", lag);
  }
  free(one), free(two);
  train_layout_destroy(layout);
}

Test(optimizer, stochastic_rounding_does_not_depend_on_threads) {
  train_layout_t *layout;
  train_pool_t *pool;
  double exact;
  cr_assert_eq(train_layout_create(&wide_config, &layout), COLL_OK);
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  float *alone = round_all(layout, NULL, 1, 0x1p-8f, &exact),
        *together = round_all(layout, pool, 1, 0x1p-8f, &exact);
  cr_assert_arr_eq(alone, together, layout->parameter_count * sizeof *alone);
  free(alone), free(together);
  train_pool_destroy(pool);
  train_layout_destroy(layout);
}

Test(optimizer, stochastic_rounding_does_not_hide_what_is_not_finite) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  size_t count = layout->parameter_count;
  float *state = calloc(STATE * count, sizeof *state), *g = calloc(count, sizeof *g);
  float *parameters = malloc(count * sizeof *parameters);
  for (size_t i = 0; i < count; i++) {
    parameters[i] = i % 2 == 0 ? INFINITY : 1;
    g[i] = i % 4 == 1 ? NAN : 0;
  }
  train_dtype_narrow(TRAIN_BFLOAT16, parameters, count, state);
  train_adamw_arrays_t arrays = arrays_at(TRAIN_PRECISION_BF16_PURE, count, state, g, 0);
  train_adamw_step(NULL, &no_decay, layout, 0, count, &arrays, 1, 0.1f, 1);
  train_dtype_widen(TRAIN_BFLOAT16, state, count, parameters);
  for (size_t i = 0; i < count; i++) {
    bool right = i % 4 == 3 ? parameters[i] == 1 : !isfinite(parameters[i]);
    cr_assert(right, "element %zu became %g", i, (double)parameters[i]);
  }
  free(state), free(g), free(parameters);
  train_layout_destroy(layout);
}

Test(optimizer, norm_and_clip) {
  const float gradients[] = {3, 0, -4, 12};
  double norm = sqrt(train_square_sum(NULL, gradients, 4));
  cr_assert_float_eq(norm, 13, 1e-12);
  cr_assert_float_eq((double)train_gradient_clip(norm, 6.5), 0.5, 1e-7);
  cr_assert_eq(train_gradient_clip(norm, 14), 1);
}

Test(optimizer, rate_rises_and_falls) {
  cr_assert_float_eq((double)train_learning_rate_at(1, 0.1, 0.05), 0.5, 1e-6);
  cr_assert_float_eq((double)train_learning_rate_at(1, 0.1, 0.1), 1, 1e-6);
  cr_assert_float_eq((double)train_learning_rate_at(1, 0.1, 0.55), 0.55, 1e-6);
  cr_assert_float_eq((double)train_learning_rate_at(1, 0.1, 1), 0.1, 1e-6);
  cr_assert_float_eq((double)train_learning_rate_at(1, 0, 0), 1, 1e-6);
  cr_assert_float_eq((double)train_learning_rate_at(1, 1, 1), 0.1, 1e-6);
}
