/* Compares AdamW with the paper, on whole arrays and on shards; tests clipping and the learning
 * rate. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/model/optimizer.h"
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

/* Five optimizer steps on random gradients, shard by shard. */
static void take_steps(const train_layout_t *layout, size_t shard, float *p, float *m, float *v) {
  const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  size_t count = layout->parameter_count;
  float *g = malloc(count * sizeof *g);
  random_fill(1, 0.4, count, p);
  memset(m, 0, count * sizeof *m);
  memset(v, 0, count * sizeof *v);
  for (int step = 1; step <= 5; step++) {
    random_fill((uint64_t)step, 0.3, count, g);
    for (size_t at = 0; at < count; at += shard) {
      size_t here = count - at < shard ? count - at : shard;
      const train_adamw_arrays_t arrays = {.gradients = g + at,
                                           .parameters = p + at,
                                           .first_moments = m + at,
                                           .second_moments = v + at};
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
  float *got = malloc(3 * count * sizeof *got), *g = malloc(count * sizeof *g);
  double *p = malloc(count * sizeof *p), *m = calloc(count, sizeof *m),
         *v = calloc(count, sizeof *v);
  take_steps(layout, count, got, got + count, got + 2 * count);
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

Test(optimizer, shards_give_the_same_result_as_the_full_array) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  size_t count = layout->parameter_count;
  float *full = malloc(3 * count * sizeof *full), *sharded = malloc(3 * count * sizeof *sharded);
  take_steps(layout, count, full, full + count, full + 2 * count);
  for (size_t shard = 31; shard < count; shard *= 3) {
    take_steps(layout, shard, sharded, sharded + count, sharded + 2 * count);
    cr_assert_arr_eq(full, sharded, 3 * count * sizeof *full, "shards of %zu", shard);
  }
  free(full), free(sharded);
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
