/* The whole model against the reference; its initial values; AdamW, clipping, learning rate. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/model.h"
#include "libtrain/optimizer.h"
#include "reference.h"

#define SEQUENCES 2
#define LENGTH 5 /* one less than the context: shorter sequences are fine */

static const train_model_config_t tiny = {
    .vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 8};
static const int32_t tokens[SEQUENCES * LENGTH] = {3, 0, 6, 3, 5, 5, 1, 2, 0, 4};
static const int32_t targets[SEQUENCES * LENGTH] = {0, 6, 3, 5, 1, 1, 2, 0, 4, 4};

static train_model_t *new_model(const train_model_config_t *config) {
  train_model_t *model;
  cr_assert_eq(train_model_create(config, SEQUENCES, &model), COLL_OK, "%s", base_last_error());
  return model;
}

/* Values large enough that every path through the model matters. */
static train_model_t *random_model(void) {
  train_model_t *model = new_model(&tiny);
  random_fill(1, 0.4, model->parameter_count, model->parameters);
  return model;
}

Test(model, gradients_match_differences_of_the_reference) {
  train_model_t *model = random_model();
  size_t count = model->parameter_count;
  double *p = malloc(count * sizeof *p);
  float *gradients = calloc(count, sizeof *gradients);
  for (size_t i = 0; i < count; i++) p[i] = (double)model->parameters[i];
  train_model_forward(model, tokens, SEQUENCES, LENGTH);
  double loss = train_model_loss(model, targets);
  double expected = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
  cr_assert_float_eq(loss, expected, 1e-5 * expected, "loss %.8g, not %.8g", loss, expected);
  train_model_backward(model, targets, 1, gradients);
  for (size_t i = 0; i < count; i++) {
    const double h = 1e-5;
    double center = p[i];
    p[i] = center + h;
    double above = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
    p[i] = center - h;
    double below = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
    p[i] = center;
    double slope = (above - below) / (2 * h);
    cr_assert_float_eq((double)gradients[i], slope, 1e-4 * (1 + fabs(slope)),
                       "gradient[%zu] is %g, not %g", i, (double)gradients[i], slope);
  }
  free(gradients);
  free(p);
  train_model_destroy(model);
}

Test(model, gradients_are_scaled_and_added) {
  train_model_t *model = random_model();
  size_t count = model->parameter_count;
  float *once = calloc(count, sizeof *once), *twice = calloc(count, sizeof *twice);
  train_model_forward(model, tokens, SEQUENCES, LENGTH);
  train_model_loss(model, targets);
  train_model_backward(model, targets, 1, once);
  for (int i = 0; i < 2; i++) {
    train_model_forward(model, tokens, SEQUENCES, LENGTH);
    train_model_loss(model, targets);
    train_model_backward(model, targets, 0.5f, twice);
  }
  for (size_t i = 0; i < count; i++) {
    cr_assert_float_eq((double)once[i], (double)twice[i], 1e-5 * (1 + fabs((double)once[i])));
  }
  free(once);
  free(twice);
  train_model_destroy(model);
}

Test(model, later_tokens_do_not_change_earlier_logits) {
  train_model_t *model = random_model();
  int32_t changed[LENGTH];
  float before[LENGTH * 7];
  memcpy(changed, tokens, sizeof changed);
  memcpy(before, train_model_forward(model, tokens, 1, LENGTH), sizeof before);
  changed[LENGTH - 1] = 2;
  const float *after = train_model_forward(model, changed, 1, LENGTH);
  size_t earlier = (LENGTH - 1) * 7;
  cr_assert_arr_eq(before, after, earlier * sizeof(float));
  cr_assert_neq(before[earlier], after[earlier]);
  train_model_destroy(model);
}

Test(model, starts_at_the_loss_of_a_guess) {
  const train_model_config_t small = {
      .vocabulary = 64, .context = LENGTH, .layers = 2, .heads = 2, .width = 32};
  train_model_t *model = new_model(&small);
  train_model_initialize(model, 5);
  train_model_forward(model, tokens, SEQUENCES, LENGTH);
  double loss = train_model_loss(model, targets) / (SEQUENCES * LENGTH);
  cr_assert_float_eq(loss, log(64), 0.4);
  train_model_destroy(model);
}

Test(model, tensors_fill_the_arena) {
  train_model_t *model = new_model(&tiny);
  size_t end = 0;
  for (int i = 0; i < model->tensor_count; i++) {
    cr_assert_eq(model->tensors[i].offset, end);
    end += (size_t)(model->tensors[i].rows * model->tensors[i].columns);
  }
  cr_assert_eq(end, model->parameter_count);
  cr_assert_eq(end, 7 * 8 + 6 * 8 + 2 * (12 * 64 + 13 * 8) + 2 * 8);
  cr_assert_str_eq(model->tensors[14 + 2].name, "h.1.attn.c_attn.weight");
  train_model_destroy(model);
}

Test(model, wrong_sizes_are_refused) {
  train_model_t *model;
  train_model_config_t config = tiny;
  config.heads = 3;
  cr_assert_eq(train_model_create(&config, 1, &model), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "3 heads do not divide width 8"));
  config = tiny;
  config.layers = 0;
  cr_assert_eq(train_model_create(&config, 1, &model), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "layers 0"));
  config = tiny;
  config.width = 32768, config.layers = 1024;
  cr_assert_eq(train_model_create(&config, 1, &model), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "parameters"));
}

/* AdamW as the paper's algorithm 2 writes it, in double, one parameter at a time. */
static void reference_adamw(double rate, double decay, double g, int step, double *p, double *m,
                            double *v) {
  *m = 0.9 * *m + 0.1 * g;
  *v = 0.95 * *v + 0.05 * g * g;
  double m_hat = *m / (1 - pow(0.9, step)), v_hat = *v / (1 - pow(0.95, step));
  *p -= rate * (m_hat / (sqrt(v_hat) + 1e-8) + decay * *p);
}

Test(optimizer, adamw_follows_the_paper) {
  const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  train_model_t *model = random_model();
  size_t count = model->parameter_count;
  float *g = calloc(count, sizeof *g), *first = calloc(count, sizeof *first);
  float *second = calloc(count, sizeof *second);
  double *p = calloc(count, sizeof *p), *m = calloc(count, sizeof *m),
         *v = calloc(count, sizeof *v);
  for (size_t i = 0; i < count; i++) p[i] = (double)model->parameters[i];
  for (int step = 1; step <= 5; step++) {
    float rate = 0.01f * (float)step;
    random_fill((uint64_t)step, 0.3, count, g);
    train_adamw_step(&adamw, model, g, 0.5f, rate, (uint64_t)step, first, second);
    for (int t = 0; t < model->tensor_count; t++) {
      const train_tensor_t *tensor = &model->tensors[t];
      bool matrix = strstr(tensor->name, "bias") == NULL && strstr(tensor->name, "ln_") == NULL;
      for (size_t i = 0; i < (size_t)(tensor->rows * tensor->columns); i++) {
        size_t at = tensor->offset + i;
        reference_adamw((double)rate, matrix ? 0.1 : 0, 0.5 * (double)g[at], step, &p[at], &m[at],
                        &v[at]);
      }
    }
  }
  for (size_t i = 0; i < count; i++) {
    cr_assert_float_eq((double)model->parameters[i], p[i], 1e-5, "parameter %zu is %g, not %g", i,
                       (double)model->parameters[i], p[i]);
  }
  free(g), free(first), free(second), free(p), free(m), free(v);
  train_model_destroy(model);
}

Test(optimizer, norm_and_clip) {
  const float gradients[] = {3, 0, -4, 12};
  double norm = train_gradient_norm(gradients, 4);
  cr_assert_float_eq(norm, 13, 1e-12);
  cr_assert_float_eq((double)train_gradient_clip(norm, 6.5), 0.5, 1e-7);
  cr_assert_eq(train_gradient_clip(norm, 14), 1);
}

Test(optimizer, rate_rises_and_falls) {
  cr_assert_float_eq((double)train_rate_at(1, 0.1, 0.05), 0.5, 1e-6);
  cr_assert_float_eq((double)train_rate_at(1, 0.1, 0.1), 1, 1e-6);
  cr_assert_float_eq((double)train_rate_at(1, 0.1, 0.55), 0.55, 1e-6);
  cr_assert_float_eq((double)train_rate_at(1, 0.1, 1), 0.1, 1e-6);
  cr_assert_float_eq((double)train_rate_at(1, 0, 0), 1, 1e-6);
  cr_assert_float_eq((double)train_rate_at(1, 1, 1), 0.1, 1e-6);
}
