/* Each operator against its reference: what it computes, and its gradients. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"
#include "reference.h"

static const int32_t tokens[] = {3, 0, 6, 3, 5, 5, 1, 2, 0, 4, 3, 3, 6, 1, 2, 5, 0, 4,
                                 2, 2, 1, 6, 0, 3, 5, 4, 1, 0, 6, 2, 4, 5, 3, 1, 2, 0};

/* Odd sizes leave every vector loop a remainder; the larger ones fill its body. */
static const shape_t shapes[] = {{2, 5, 2, 6, 7, 7, tokens}, {2, 18, 3, 36, 19, 7, tokens}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static size_t rows_of(const shape_t *s) {
  return (size_t)(s->sequences * s->length);
}

static float *random_floats(uint64_t seed, size_t count) {
  float *values = malloc(count * sizeof *values);
  random_fill(seed, 1, count, values);
  return values;
}

static float *zeros(size_t count) {
  return calloc(count, sizeof(float));
}

Test(ops, embedding) {
  for (size_t each = 0; each < SHAPES; each++) {
    const shape_t *s = &shapes[each];
    size_t tables = (size_t)((s->classes + s->length) * s->width), outs = rows_of(s) * s->width;
    float *x = random_floats(1, tables), *d = random_floats(2, outs), *g = zeros(tables);
    float *out = zeros(outs);
    train_embedding_forward(tokens, x, x + s->classes * s->width, s->sequences, s->length, s->width,
                            out);
    check_forward("embedding", reference_embedding, s, x, tables, out, outs);
    train_embedding_backward(tokens, d, s->sequences, s->length, s->width, g,
                             g + s->classes * s->width);
    check_gradients("embedding", reference_embedding, s, x, tables, d, outs, g);
    free(x), free(d), free(g), free(out);
  }
}

Test(ops, layernorm) {
  for (size_t each = 0; each < SHAPES; each++) {
    const shape_t *s = &shapes[each];
    size_t width = (size_t)s->width, rows = rows_of(s), ins = rows * width, all = ins + 2 * width;
    float *x = random_floats(3, all), *d = random_floats(4, ins), *g = zeros(all);
    float *out = zeros(ins), *mean = zeros(rows), *rstd = zeros(rows);
    train_layernorm_forward(x, x + ins, x + ins + width, (int)rows, s->width, out, mean, rstd);
    check_forward("layernorm", reference_layernorm, s, x, all, out, ins);
    train_layernorm_backward(d, x, x + ins, mean, rstd, (int)rows, s->width, g, g + ins,
                             g + ins + width);
    check_gradients("layernorm", reference_layernorm, s, x, all, d, ins, g);
    free(x), free(d), free(g), free(out), free(mean), free(rstd);
  }
}

Test(ops, linear) {
  for (size_t each = 0; each < SHAPES; each++) {
    const shape_t *s = &shapes[each];
    size_t rows = rows_of(s), ins = rows * s->width, outs = rows * s->out_width;
    size_t weights = (size_t)(s->out_width * s->width), all = ins + weights + s->out_width;
    float *x = random_floats(5, all), *d = random_floats(6, outs), *g = zeros(all);
    float *out = zeros(outs);
    train_linear_forward(x, x + ins, x + ins + weights, (int)rows, s->width, s->out_width, out);
    check_forward("linear", reference_linear, s, x, all, out, outs);
    train_linear_backward(d, x, x + ins, (int)rows, s->width, s->out_width, g, g + ins,
                          g + ins + weights);
    check_gradients("linear", reference_linear, s, x, all, d, outs, g);
    free(x), free(d), free(g), free(out);
  }
}

Test(ops, linear_without_bias_overwrites_its_output) {
  const float in[] = {1, 2}, weight[] = {3, 4};
  float out[] = {100};
  train_linear_forward(in, weight, NULL, 1, 2, 1, out);
  cr_assert_float_eq((double)out[0], 11, 1e-6);
}

Test(ops, gelu) {
  for (size_t each = 0; each < SHAPES; each++) {
    const shape_t *s = &shapes[each];
    size_t count = rows_of(s) * s->width;
    float *x = random_floats(7, count), *d = random_floats(8, count), *g = zeros(count);
    float *out = zeros(count);
    for (size_t i = 0; i < count; i++) x[i] *= 3; /* into both tails */
    memcpy(g, d, count * sizeof *g);
    train_gelu_forward(x, (long)count, out);
    check_forward("gelu", reference_gelu, s, x, count, out, count);
    train_gelu_backward(x, (long)count, g);
    check_gradients("gelu", reference_gelu, s, x, count, d, count, g);
    free(x), free(d), free(g), free(out);
  }
}

Test(ops, attention) {
  for (size_t each = 0; each < SHAPES; each++) {
    const shape_t *s = &shapes[each];
    size_t ins = rows_of(s) * 3 * s->width, outs = rows_of(s) * s->width;
    float *x = random_floats(9, ins), *d = random_floats(10, outs), *g = zeros(ins);
    float *out = zeros(outs), *scratch = zeros((size_t)(s->length * s->length));
    float *weights = zeros((size_t)(s->sequences * s->heads * s->length * s->length));
    train_attention_forward(x, s->sequences, s->length, s->heads, s->width, weights, out);
    check_forward("attention", reference_attention, s, x, ins, out, outs);
    train_attention_backward(d, x, weights, s->sequences, s->length, s->heads, s->width, scratch,
                             g);
    check_gradients("attention", reference_attention, s, x, ins, d, outs, g);
    free(x), free(d), free(g), free(out), free(scratch), free(weights);
  }
}

Test(ops, residual) {
  const shape_t *s = &shapes[1];
  size_t count = rows_of(s) * s->width;
  float *x = random_floats(11, 2 * count), *out = zeros(count);
  train_residual_forward(x, x + count, (long)count, out);
  check_forward("residual", reference_residual, s, x, 2 * count, out, count);
  free(x), free(out);
}

Test(ops, cross_entropy) {
  for (size_t each = 0; each < SHAPES; each++) {
    const shape_t *s = &shapes[each];
    size_t rows = rows_of(s), count = rows * s->classes;
    const float scale = 0.25f;
    float *x = random_floats(12, count), *g = zeros(count), *losses = zeros(rows);
    float *scales = zeros(rows);
    for (size_t i = 0; i < count; i++) x[i] *= 4;
    for (size_t row = 0; row < rows; row++) scales[row] = scale;
    memcpy(g, x, count * sizeof *g);
    train_cross_entropy_forward(tokens, (int)rows, s->classes, g, losses);
    check_forward("cross entropy", reference_cross_entropy, s, x, count, losses, rows);
    train_cross_entropy_backward(tokens, (int)rows, s->classes, scale, g);
    check_gradients("cross entropy", reference_cross_entropy, s, x, count, scales, rows, g);
    free(x), free(g), free(losses), free(scales);
  }
}

Test(ops, cross_entropy_of_huge_logits_is_finite) {
  float logits[] = {1e4f, -1e4f, 9.99e3f}, loss;
  const int32_t target = 1;
  train_cross_entropy_forward(&target, 1, 3, logits, &loss);
  cr_assert_float_eq((double)loss, 2e4, 1e-2);
  cr_assert_float_eq((double)(logits[0] + logits[1] + logits[2]), 1, 1e-6);
}

Test(vector, exponential_is_accurate) {
  double worst = 0;
  for (float x = -87; x <= 88; x += 0.00031f) {
    double expected = exp((double)x), error = fabs((double)train_exp(x) - expected) / expected;
    worst = error > worst ? error : worst;
  }
  cr_assert_lt(worst, 2e-7, "relative error %g", worst);
  cr_assert_eq(train_exp(0), 1);
  cr_assert_lt(train_exp(-1e30f), 1e-37f);
  cr_assert_gt(train_exp(1e30f), 1e38f);
  cr_assert(isnan(train_exp(NAN)));
}

Test(vector, hyperbolic_tangent_is_accurate) {
  double worst = 0;
  for (float x = -20; x <= 20; x += 0.00007f) {
    double error = fabs((double)train_tanh(x) - tanh((double)x));
    worst = error > worst ? error : worst;
  }
  cr_assert_lt(worst, 3e-7, "absolute error %g", worst);
  cr_assert_eq(train_tanh(1e30f), 1);
  cr_assert_eq(train_tanh(-1e30f), -1);
  cr_assert(isnan(train_tanh(NAN)));
}
