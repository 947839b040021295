/*
 * Compares each operator of the host backend with its reference: results, gradients, accumulation
 * of gradients, and identical bits for any number of threads.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/common/vector.h"
#include "libtrain/ops/ops.h"
#include "reference.h"

#define POSITIONS_MAX 600
#define SCRATCH 4000000

static int32_t tokens[POSITIONS_MAX];

/* An operator with its inputs concatenated in the reference's order: first those whose gradients
 * are overwritten, then from `parameters` on those whose gradients may be accumulated. */
typedef struct op {
  const char *name;
  reference_t *reference;
  size_t ins, parameters, outs;
  double deviation; /* standard deviation of the inputs */
  /* Forward to out[outs], backward from d[outs] to g[ins]. */
  void (*run)(const train_exec_t *exec, const shape_t *s, const float *x, const float *d,
              bool overwrite, float *out, float *g);
} op_t;

/* Runs operators in float32; valid until the next call. */
static const train_exec_t *exec_of(train_pool_t *pool) {
  static float scratch[SCRATCH];
  static train_exec_t exec;
  train_gemm_destroy(exec.gemm);
  exec = (train_exec_t){.pool = pool, .scratch = scratch};
  cr_assert_eq(train_gemm_create(pool, &exec.gemm), COLL_OK);
  return &exec;
}

static size_t rows_of(const shape_t *s) {
  return (size_t)(s->sequences * s->length);
}

static train_batch_t batch_of(const shape_t *s) {
  return (train_batch_t){.sequences = s->sequences, .length = s->length};
}

static float *random_floats(uint64_t seed, double deviation, size_t count) {
  float *values = malloc(count * sizeof *values);
  random_fill(seed, deviation, count, values);
  return values;
}

/* ---- comparison ---- */

/* Runs two passes: the first must overwrite NaNs, the second must add. */
static void run_twice(const op_t *op, const shape_t *s, const train_exec_t *exec, const float *x,
                      const float *d, float *out, float *once, float *twice) {
  memset(once, 0xff, op->ins * sizeof *once);
  memset(out, 0xff, op->outs * sizeof *out);
  op->run(exec, s, x, d, true, out, once);
  memcpy(twice, once, op->ins * sizeof *once);
  op->run(exec, s, x, d, false, out, twice);
}

static void check_addition(const op_t *op, const float *once, const float *twice) {
  for (size_t i = 0; i < op->ins; i++) {
    double expected = (double)once[i] * (i < op->parameters ? 1 : 2);
    cr_assert_float_eq((double)twice[i], expected, 2e-5 * (1 + fabs(expected)),
                       "%s: gradient[%zu] is %g when added to %g", op->name, i, (double)twice[i],
                       (double)once[i]);
  }
}

/* Compares gradients with central differences at every stride-th input. */
static void check_op(const op_t *op, const shape_t *s, size_t stride) {
  float *x = random_floats(1, op->deviation, op->ins), *d = random_floats(2, 1, op->outs);
  float *results[2] = {malloc((2 * op->ins + op->outs) * sizeof(float)),
                       malloc((2 * op->ins + op->outs) * sizeof(float))};
  cr_assert_leq(rows_of(s), POSITIONS_MAX);
  for (size_t i = 0; i < rows_of(s); i++) tokens[i] = (int32_t)(i * i * 7 + i / 3) % s->classes;
  float *once = results[0], *twice = once + op->ins, *out = twice + op->ins;
  run_twice(op, s, exec_of(NULL), x, d, out, once, twice);
  check_forward(op->name, op->reference, s, x, op->ins, out, op->outs);
  check_gradients(op->name, op->reference, s, x, op->ins, stride, d, op->outs, once);
  check_addition(op, once, twice);
  for (int threads = 1; threads <= 4; threads++) {
    train_pool_t *pool;
    cr_assert_eq(train_pool_create(threads, &pool), COLL_OK);
    run_twice(op, s, exec_of(pool), x, d, results[1] + 2 * op->ins, results[1],
              results[1] + op->ins);
    cr_assert_arr_eq(results[0], results[1], (2 * op->ins + op->outs) * sizeof(float),
                     "%s: other bits from %d threads", op->name, threads);
    train_pool_destroy(pool);
  }
  free(x), free(d), free(results[0]), free(results[1]);
}

/* Odd sizes, so that vector loops have remainders; the largest ones span several tiles. */
static shape_t shape_of(int sequences, int length, int heads, int width, int out_width,
                        int classes) {
  return (shape_t){sequences, length, heads, width, out_width, classes, tokens};
}

/* ---- the operators ---- */

static void run_embedding(const train_exec_t *exec, const shape_t *s, const float *x,
                          const float *d, bool overwrite, float *out, float *g) {
  size_t table = (size_t)(s->classes * s->width);
  const train_batch_t batch = batch_of(s);
  if (overwrite)
    memset(g, 0, table * sizeof *g); /* normally overwritten by the classifier
                                      * before */
  train_ops_host.embedding_forward(exec, &batch, tokens, x, x + table, s->width, out);
  train_ops_host.embedding_backward(exec, &batch, tokens, d, s->width, s->length + 2, overwrite, g,
                                    g + table);
}

Test(ops, embedding) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 0, 7), shape_of(3, 18, 1, 150, 0, 7)};
  for (int i = 0; i < 2; i++) {
    const shape_t *s = &shapes[i];
    size_t tables = (size_t)((s->classes + s->length + 2) * s->width);
    const op_t op = {"embedding", reference_embedding, tables, 0, rows_of(s) * (size_t)s->width,
                     1,           run_embedding};
    check_op(&op, s, i == 0 ? 1 : 17);
  }
}

static void run_layernorm(const train_exec_t *exec, const shape_t *s, const float *x,
                          const float *d, bool overwrite, float *out, float *g) {
  size_t rows = rows_of(s), width = (size_t)s->width, ins = rows * width;
  float mean[POSITIONS_MAX], rstd[POSITIONS_MAX];
  train_ops_host.layernorm_forward(exec, x, x + ins, x + ins + width, (int)rows, s->width, out,
                                   mean, rstd);
  train_ops_host.layernorm_backward(exec, d, x, x + ins, mean, rstd, (int)rows, s->width, true,
                                    overwrite, g, g + ins, g + ins + width);
}

Test(ops, layernorm) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 0, 7), shape_of(3, 18, 1, 37, 0, 7)};
  for (int i = 0; i < 2; i++) {
    const shape_t *s = &shapes[i];
    size_t ins = rows_of(s) * (size_t)s->width;
    const op_t op = {"layernorm", reference_layernorm, ins + 2 * (size_t)s->width, ins, ins,
                     1,           run_layernorm};
    check_op(&op, s, i == 0 ? 1 : 7);
  }
}

Test(ops, layernorm_adds_to_the_stream) {
  const float in[] = {1, 2, 4}, weight[] = {1, 2, 1}, mean[] = {2}, rstd[] = {0.7f},
              d_out[] = {1, -1, 2};
  float first[] = {9, 9, 9}, added[] = {10, 20, 30}, d_weight[3], d_bias[3];
  train_ops_host.layernorm_backward(exec_of(NULL), d_out, in, weight, mean, rstd, 1, 3, true, true,
                                    first, d_weight, d_bias);
  train_ops_host.layernorm_backward(exec_of(NULL), d_out, in, weight, mean, rstd, 1, 3, false, true,
                                    added, d_weight, d_bias);
  for (int i = 0; i < 3; i++) {
    cr_assert_float_eq((double)added[i], (double)first[i] + 10 * (i + 1), 1e-5);
  }
}

static train_linear_t linear_of(const shape_t *s) {
  return (train_linear_t){.in_width = s->width, .out_width = s->out_width};
}

static void run_linear(const train_exec_t *exec, const shape_t *s, const float *x, const float *d,
                       bool overwrite, float *out, float *g) {
  size_t ins = rows_of(s) * (size_t)s->width, weights = (size_t)(s->out_width * s->width);
  const train_linear_t linear = linear_of(s);
  train_ops_host.linear_forward(exec, &linear, x, (int)rows_of(s), x + ins, x + ins + weights, NULL,
                                out, NULL);
  train_ops_host.linear_backward(exec, &linear, d, x, (int)rows_of(s), x + ins, NULL, overwrite, g,
                                 g + ins, g + ins + weights);
}

static void run_linear_and_residual(const train_exec_t *exec, const shape_t *s, const float *x,
                                    const float *d, bool overwrite, float *out, float *g) {
  size_t ins = rows_of(s) * (size_t)s->width, outs = rows_of(s) * (size_t)s->out_width;
  size_t weights = (size_t)(s->out_width * s->width);
  const float *bias = x + ins + weights, *residual = bias + s->out_width;
  const train_linear_t linear = linear_of(s);
  run_linear(exec, s, x, d, overwrite, out, g);
  train_ops_host.linear_forward(exec, &linear, x, (int)rows_of(s), x + ins, bias, residual, out,
                                NULL);
  float *d_residual = g + (residual - x); /* the gradient of the residual stream */
  for (size_t i = 0; i < outs; i++) d_residual[i] = overwrite ? d[i] : 2 * d[i];
}

static void run_gelu_and_linear(const train_exec_t *exec, const shape_t *s, const float *x,
                                const float *d, bool overwrite, float *out, float *g) {
  size_t ins = rows_of(s) * (size_t)s->width, weights = (size_t)(s->out_width * s->width);
  const train_linear_t linear = linear_of(s), same = {.in_width = s->width, .out_width = s->width};
  float *active = malloc(2 * ins * sizeof *active), *hidden = active + ins;
  float *identity = calloc((size_t)(s->width * s->width + s->width), sizeof *identity);
  for (int i = 0; i < s->width; i++) identity[i * s->width + i] = 1;
  train_ops_host.linear_forward(exec, &same, x, (int)rows_of(s), identity,
                                identity + s->width * s->width, NULL, hidden, active);
  cr_assert_arr_eq(hidden, x, ins * sizeof *x);
  train_ops_host.linear_forward(exec, &linear, active, (int)rows_of(s), x + ins, x + ins + weights,
                                NULL, out, NULL);
  train_ops_host.linear_backward(exec, &linear, d, active, (int)rows_of(s), x + ins, hidden,
                                 overwrite, g, g + ins, g + ins + weights);
  free(active), free(identity);
}

Test(ops, linear) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 7, 7), shape_of(1, 1, 1, 37, 19, 7),
                            shape_of(2, 18, 1, 37, 19, 7), shape_of(2, 150, 1, 30, 210, 7)};
  for (int i = 0; i < 4; i++) {
    const shape_t *s = &shapes[i];
    size_t ins = rows_of(s) * (size_t)s->width, outs = rows_of(s) * (size_t)s->out_width;
    size_t weights = (size_t)(s->out_width * (s->width + 1)), stride = i == 0 ? 1 : i < 3 ? 7 : 299;
    const op_t ops[] = {{"linear", reference_linear, ins + weights, ins, outs, 1, run_linear},
                        {"linear, residual", reference_linear_and_residual, ins + weights + outs,
                         ins, outs, 1, run_linear_and_residual},
                        {"GELU, linear", reference_gelu_and_linear, ins + weights, ins, outs, 2,
                         run_gelu_and_linear}};
    for (int which = 0; which < 3; which++) check_op(&ops[which], s, stride);
  }
}

Test(ops, linear_without_bias_overwrites_its_output) {
  const float in[] = {1, 2, 3, 4}, weight[] = {3, 4};
  const train_linear_t linear = {.in_width = 2, .out_width = 1};
  float out[] = {NAN, NAN};
  for (int rows = 1; rows <= 2; rows++) {
    train_ops_host.linear_forward(exec_of(NULL), &linear, in, rows, weight, NULL, NULL, out, NULL);
    cr_assert_float_eq((double)out[0], 11, 1e-6);
  }
  cr_assert_float_eq((double)out[1], 25, 1e-6);
}

static void run_attention(const train_exec_t *exec, const shape_t *s, const float *x,
                          const float *d, bool overwrite, float *out, float *g) {
  float log_sums[POSITIONS_MAX * 4];
  const train_batch_t batch = batch_of(s);
  (void)overwrite;
  train_ops_host.attention_forward(exec, &batch, x, s->heads, s->width, out, log_sums);
  train_ops_host.attention_backward(exec, &batch, d, x, out, log_sums, s->heads, s->width, g);
}

Test(ops, attention) {
  const shape_t shapes[] = {shape_of(2, 5, 2, 6, 0, 7), shape_of(2, 64, 3, 36, 0, 7),
                            shape_of(2, 150, 2, 12, 0, 7)};
  for (int i = 0; i < 3; i++) {
    const shape_t *s = &shapes[i];
    size_t ins = rows_of(s) * 3 * (size_t)s->width, outs = rows_of(s) * (size_t)s->width;
    const op_t op = {"attention", reference_attention, ins, ins, outs, 1, run_attention};
    check_op(&op, s, i == 0 ? 1 : 211);
  }
}

/* Large scores in a late tile rescale all earlier sums to nearly zero. */
Test(ops, attention_handles_growing_scores) {
  enum { LENGTH = 130, WIDTH = 4 };
  float qkv[LENGTH * 3 * WIDTH], out[LENGTH * WIDTH], log_sums[LENGTH];
  const train_batch_t batch = {.sequences = 1, .length = LENGTH};
  for (int t = 0; t < LENGTH; t++) {
    for (int i = 0; i < WIDTH; i++) {
      float *row = qkv + t * 3 * WIDTH;
      row[i] = 20;
      row[WIDTH + i] = (float)t;
      row[2 * WIDTH + i] = (float)t;
    }
  }
  train_ops_host.attention_forward(exec_of(NULL), &batch, qkv, 1, WIDTH, out, log_sums);
  for (int t = 0; t < LENGTH; t++) {
    cr_assert_float_eq((double)out[t * WIDTH], t, 1e-4, "at %d: %g", t, (double)out[t * WIDTH]);
  }
}

Test(ops, attention_extends_a_sequence) {
  enum { LENGTH = 150, WIDTH = 12, HEADS = 3 };
  float *qkv = random_floats(3, 1, LENGTH * 3 * WIDTH);
  float whole[LENGTH * WIDTH], part[LENGTH * WIDTH], log_sums[LENGTH * HEADS];
  const train_batch_t all = {.sequences = 1, .length = LENGTH};
  train_ops_host.attention_forward(exec_of(NULL), &all, qkv, HEADS, WIDTH, whole, log_sums);
  const int starts[] = {1, 63, 64, 100, LENGTH - 1};
  for (int i = 0; i < 5; i++) {
    const train_batch_t rest = {.sequences = 1, .length = LENGTH - starts[i], .first = starts[i]};
    train_ops_host.attention_forward(exec_of(NULL), &rest, qkv, HEADS, WIDTH, part, log_sums);
    for (int j = 0; j < rest.length * WIDTH; j++) {
      cr_assert_float_eq((double)part[j], (double)whole[starts[i] * WIDTH + j], 1e-5);
    }
  }
  free(qkv);
}

/* The reference returns the loss of each row, the operator their sum, with scaled gradients. */
static void sum_of_classifier(const shape_t *s, const double *x, double *out) {
  double losses[POSITIONS_MAX];
  reference_classifier(s, x, losses);
  out[0] = 0;
  for (size_t row = 0; row < rows_of(s); row++) out[0] += losses[row];
}

static void run_classifier(const train_exec_t *exec, const shape_t *s, const float *x,
                           const float *d, bool overwrite, float *out, float *g) {
  size_t ins = rows_of(s) * (size_t)s->width;
  double loss = train_ops_host.classifier(exec, x, x + ins, tokens, (int)rows_of(s), s->width,
                                          s->classes, d[0], overwrite, g, g + ins);
  double loss_only = train_ops_host.classifier(exec, x, x + ins, tokens, (int)rows_of(s), s->width,
                                               s->classes, 0, false, NULL, NULL);
  cr_assert_eq(loss, loss_only, "the loss without gradients is %.9g, not %.9g", loss_only, loss);
  out[0] = (float)loss;
}

Test(ops, classifier) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 0, 7), shape_of(2, 18, 1, 9, 0, 1100),
                            shape_of(2, 150, 1, 5, 0, 600)};
  for (int i = 0; i < 3; i++) {
    const shape_t *s = &shapes[i];
    size_t ins = rows_of(s) * (size_t)s->width;
    const op_t op = {"classifier", sum_of_classifier, ins + (size_t)(s->classes * s->width), ins, 1,
                     1.5,          run_classifier};
    check_op(&op, s, i == 0 ? 1 : 101);
  }
}

Test(ops, classifier_is_finite_for_huge_logits) {
  const float in[] = {1}, table[] = {1e4f, -1e4f, 9.99e3f};
  const int32_t target = 1;
  float d_in[1], d_table[3];
  double loss =
      train_ops_host.classifier(exec_of(NULL), in, table, &target, 1, 1, 3, 1, true, d_in, d_table);
  cr_assert_float_eq(loss, 2e4, 1e-2);
  cr_assert_float_eq((double)(d_table[0] + d_table[1] + d_table[2]), 0, 1e-6);
  cr_assert_float_eq((double)d_table[1], -1, 1e-6);
}

Test(ops, scratch_size_is_sufficient) {
  const train_ops_sizes_t small = {.rows = 8,
                                   .length = 8,
                                   .heads = 2,
                                   .width = 16,
                                   .vocabulary = 300,
                                   .threads = 2,
                                   .training = true};
  train_ops_sizes_t large = small;
  size_t needed = train_ops_host.scratch_floats(&small);
  large.rows *= 100, large.length *= 100, large.vocabulary *= 10;
  cr_assert_gt(needed, 8 * 300);
  cr_assert_gt(train_ops_host.scratch_floats(&large), needed);
}

/* ---- math functions ---- */

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
