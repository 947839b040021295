/*
 * Compares each operator of the host backend with its reference: results, gradients, accumulation
 * of gradients, and identical bits for any number of threads; in float32 at chosen shapes, in the
 * narrow types at random ones.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "harness/harness.h"
#include "libtrain/common/random.h"
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
  /* Forward to out[outs], backward from d[outs] to g[parameters] and g_parameters[ins -
   * parameters]. */
  void (*run)(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
              bool overwrite, void *out, void *g, float *g_parameters);
  bool float32_out; /* for any type of inputs */
} op_t;

/* Runs operators; valid until the next call. */
static const train_exec_t *exec_with(train_pool_t *pool, train_dtype_t dtype) {
  static float scratch[SCRATCH];
  static train_exec_t exec;
  train_gemm_destroy(exec.gemm);
  exec = (train_exec_t){.pool = pool, .dtype = dtype, .scratch = scratch};
  cr_assert_eq(train_gemm_create(pool, &exec.gemm), COLL_OK);
  return &exec;
}

static const train_exec_t *exec_of(train_pool_t *pool) {
  return exec_with(pool, TRAIN_FLOAT32);
}

static const void *at(const train_exec_t *exec, const void *array, size_t index) {
  return train_dtype_const_at(exec->dtype, array, index);
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
  op->run(exec, s, x, d, true, out, once, once + op->parameters);
  memcpy(twice, once, op->ins * sizeof *once);
  op->run(exec, s, x, d, false, out, twice, twice + op->parameters);
}

static void check_addition(const op_t *op, const float *once, const float *twice) {
  for (size_t i = 0; i < op->ins; i++) {
    double expected = (double)once[i] * (i < op->parameters ? 1 : 2);
    cr_assert_float_eq((double)twice[i], expected, 2e-5 * (1 + fabs(expected)),
                       "%s: gradient[%zu] is %g when added to %g", op->name, i, (double)twice[i],
                       (double)once[i]);
  }
}

static void fill_tokens(const shape_t *s) {
  cr_assert_leq(rows_of(s), POSITIONS_MAX);
  for (size_t i = 0; i < rows_of(s); i++) tokens[i] = (int32_t)(i * i * 7 + i / 3) % s->classes;
}

/* Compares gradients with central differences at every stride-th input. */
static void check_op(const op_t *op, const shape_t *s, size_t stride) {
  float *x = random_floats(1, op->deviation, op->ins), *d = random_floats(2, 1, op->outs);
  float *results[2] = {malloc((2 * op->ins + op->outs) * sizeof(float)),
                       malloc((2 * op->ins + op->outs) * sizeof(float))};
  fill_tokens(s);
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

static void run_embedding(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                          bool overwrite, void *out, void *g, float *g_parameters) {
  size_t table = (size_t)(s->classes * s->width);
  const train_batch_t batch = batch_of(s);
  (void)g;
  if (overwrite)
    memset(g_parameters, 0, table * sizeof *g_parameters); /* normally overwritten by the
                                                            * classifier before */
  train_ops_host.embedding_forward(exec, &batch, tokens, x, at(exec, x, table), s->width, out);
  train_ops_host.embedding_backward(exec, &batch, tokens, d, s->width, s->length + 2, overwrite,
                                    g_parameters, g_parameters + table);
}

static op_t embedding_op(const shape_t *s) {
  size_t tables = (size_t)((s->classes + s->length + 2) * s->width);
  return (op_t){"embedding", reference_embedding, tables, 0, rows_of(s) * (size_t)s->width,
                1,           run_embedding,       false};
}

Test(ops, embedding) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 0, 7), shape_of(3, 18, 1, 150, 0, 7)};
  for (int i = 0; i < 2; i++) {
    const op_t op = embedding_op(&shapes[i]);
    check_op(&op, &shapes[i], i == 0 ? 1 : 17);
  }
}

static void run_layernorm(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                          bool overwrite, void *out, void *g, float *g_parameters) {
  size_t rows = rows_of(s), width = (size_t)s->width, ins = rows * width;
  float mean[POSITIONS_MAX], rstd[POSITIONS_MAX];
  train_ops_host.layernorm_forward(exec, x, at(exec, x, ins), at(exec, x, ins + width), (int)rows,
                                   s->width, out, mean, rstd);
  train_ops_host.layernorm_backward(exec, d, x, at(exec, x, ins), mean, rstd, (int)rows, s->width,
                                    true, overwrite, g, g_parameters, g_parameters + width);
}

static op_t layernorm_op(const shape_t *s) {
  size_t ins = rows_of(s) * (size_t)s->width;
  return (op_t){
      "layernorm", reference_layernorm, ins + 2 * (size_t)s->width, ins, ins, 1, run_layernorm,
      false};
}

Test(ops, layernorm) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 0, 7), shape_of(3, 18, 1, 37, 0, 7)};
  for (int i = 0; i < 2; i++) {
    const op_t op = layernorm_op(&shapes[i]);
    check_op(&op, &shapes[i], i == 0 ? 1 : 7);
  }
}

static void check_stream(train_dtype_t dtype) {
  const float in[] = {1, 2, 4}, weight[] = {1, 2, 1}, mean[] = {2}, rstd[] = {0.75f},
              d_out[] = {1, -1, 2};
  float first[] = {9, 9, 9}, added[] = {10, 20, 30}, d_weight[3], d_bias[3], arrays[5][3];
  const float *const values[] = {in, weight, d_out, first, added};
  for (int i = 0; i < 5; i++) train_dtype_narrow(dtype, values[i], 3, arrays[i]);
  for (int i = 0; i < 2; i++) {
    train_ops_host.layernorm_backward(exec_with(NULL, dtype), arrays[2], arrays[0], arrays[1], mean,
                                      rstd, 1, 3, i == 0, true, arrays[3 + i], d_weight, d_bias);
  }
  train_dtype_widen(dtype, arrays[3], 3, first);
  train_dtype_widen(dtype, arrays[4], 3, added);
  double tolerance = dtype == TRAIN_FLOAT32 ? 1e-5 : dtype == TRAIN_BFLOAT16 ? 0.12 : 0.015;
  for (int i = 0; i < 3; i++) {
    cr_assert_float_eq((double)added[i], (double)first[i] + 10 * (i + 1), tolerance, "%s: %g",
                       train_dtype_name(dtype), (double)added[i]);
  }
}

Test(ops, layernorm_adds_to_the_stream) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) check_stream((train_dtype_t)dtype);
}

static train_linear_t linear_of(const shape_t *s) {
  return (train_linear_t){.in_width = s->width, .out_width = s->out_width};
}

static size_t weights_of(const shape_t *s) {
  return (size_t)(s->out_width * s->width);
}

static void run_linear(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                       bool overwrite, void *out, void *g, float *g_parameters) {
  size_t ins = rows_of(s) * (size_t)s->width, weights = weights_of(s);
  const train_linear_t linear = linear_of(s);
  const void *weight = at(exec, x, ins);
  train_ops_host.linear_forward(exec, &linear, x, (int)rows_of(s), weight,
                                at(exec, x, ins + weights), NULL, out, NULL);
  train_ops_host.linear_backward(exec, &linear, d, x, (int)rows_of(s), weight, NULL, overwrite, g,
                                 g_parameters, g_parameters + weights);
}

static void run_linear_and_residual(const train_exec_t *exec, const shape_t *s, const void *x,
                                    const void *d, bool overwrite, void *out, void *g,
                                    float *g_parameters) {
  size_t ins = rows_of(s) * (size_t)s->width, outs = rows_of(s) * (size_t)s->out_width;
  size_t bias = ins + weights_of(s), residual = bias + (size_t)s->out_width;
  const train_linear_t linear = linear_of(s);
  run_linear(exec, s, x, d, overwrite, out, g, g_parameters);
  train_ops_host.linear_forward(exec, &linear, x, (int)rows_of(s), at(exec, x, ins),
                                at(exec, x, bias), at(exec, x, residual), out, NULL);
  float *d_residual = g_parameters + (residual - ins); /* the gradient of the residual stream */
  train_dtype_widen(exec->dtype, d, outs, d_residual);
  for (size_t i = 0; !overwrite && i < outs; i++) d_residual[i] *= 2;
}

static void run_gelu_and_linear(const train_exec_t *exec, const shape_t *s, const void *x,
                                const void *d, bool overwrite, void *out, void *g,
                                float *g_parameters) {
  size_t ins = rows_of(s) * (size_t)s->width, weights = weights_of(s), width = (size_t)s->width;
  const train_linear_t linear = linear_of(s), same = {.in_width = s->width, .out_width = s->width};
  float *active = malloc(2 * ins * sizeof *active), *hidden = active + ins;
  float *identity = calloc(width * width + width, sizeof *identity);
  for (size_t i = 0; i < width; i++) identity[i * width + i] = 1;
  train_dtype_narrow(exec->dtype, identity, width * width + width, identity);
  train_ops_host.linear_forward(exec, &same, x, (int)rows_of(s), identity,
                                at(exec, identity, width * width), NULL, hidden, active);
  cr_assert_arr_eq(hidden, x, ins * train_dtype_bytes(exec->dtype));
  train_ops_host.linear_forward(exec, &linear, active, (int)rows_of(s), at(exec, x, ins),
                                at(exec, x, ins + weights), NULL, out, NULL);
  train_ops_host.linear_backward(exec, &linear, d, active, (int)rows_of(s), at(exec, x, ins),
                                 hidden, overwrite, g, g_parameters, g_parameters + weights);
  free(active), free(identity);
}

static op_t linear_op(const shape_t *s) {
  size_t ins = rows_of(s) * (size_t)s->width, outs = rows_of(s) * (size_t)s->out_width;
  return (op_t){"linear",
                reference_linear,
                ins + weights_of(s) + (size_t)s->out_width,
                ins,
                outs,
                1,
                run_linear,
                false};
}

static op_t linear_and_residual_op(const shape_t *s) {
  op_t op = linear_op(s);
  op.name = "linear, residual";
  op.reference = reference_linear_and_residual;
  op.ins += op.outs;
  op.run = run_linear_and_residual;
  return op;
}

static op_t gelu_and_linear_op(const shape_t *s) {
  op_t op = linear_op(s);
  op.name = "GELU, linear";
  op.reference = reference_gelu_and_linear;
  op.deviation = 2;
  op.run = run_gelu_and_linear;
  return op;
}

Test(ops, linear) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 7, 7), shape_of(1, 1, 1, 37, 19, 7),
                            shape_of(2, 18, 1, 37, 19, 7), shape_of(2, 150, 1, 30, 210, 7)};
  for (int i = 0; i < 4; i++) {
    const shape_t *s = &shapes[i];
    size_t stride = i == 0 ? 1 : i < 3 ? 7 : 299;
    const op_t ops[] = {linear_op(s), linear_and_residual_op(s), gelu_and_linear_op(s)};
    for (int which = 0; which < 3; which++) check_op(&ops[which], s, stride);
  }
}

static void check_without_bias(train_dtype_t dtype) {
  float in[] = {1, 2, 3, 4}, weight[] = {3, 4}, out[] = {NAN, NAN};
  const train_linear_t linear = {.in_width = 2, .out_width = 1};
  train_dtype_narrow(dtype, in, 4, in);
  train_dtype_narrow(dtype, weight, 2, weight);
  for (int rows = 1; rows <= 2; rows++) {
    float wide[2];
    train_ops_host.linear_forward(exec_with(NULL, dtype), &linear, in, rows, weight, NULL, NULL,
                                  out, NULL);
    train_dtype_widen(dtype, out, (size_t)rows, wide);
    cr_assert_float_eq((double)wide[0], 11, 1e-6);
    if (rows == 2) cr_assert_float_eq((double)wide[1], 25, 1e-6);
  }
}

Test(ops, linear_without_bias_overwrites_its_output) {
  check_without_bias(TRAIN_FLOAT32);
  check_without_bias(TRAIN_BFLOAT16);
  check_without_bias(TRAIN_FLOAT16);
}

static void run_attention(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                          bool overwrite, void *out, void *g, float *g_parameters) {
  float log_sums[POSITIONS_MAX * 4];
  const train_batch_t batch = batch_of(s);
  (void)overwrite, (void)g_parameters;
  train_ops_host.attention_forward(exec, &batch, x, s->heads, s->width, out, log_sums);
  train_ops_host.attention_backward(exec, &batch, d, x, out, log_sums, s->heads, s->width, g);
}

static op_t attention_op(const shape_t *s) {
  size_t outs = rows_of(s) * (size_t)s->width, ins = 3 * outs;
  return (op_t){"attention", reference_attention, ins, ins, outs, 1, run_attention, false};
}

Test(ops, attention) {
  const shape_t shapes[] = {shape_of(2, 5, 2, 6, 0, 7), shape_of(2, 64, 3, 36, 0, 7),
                            shape_of(2, 150, 2, 12, 0, 7)};
  for (int i = 0; i < 3; i++) {
    const op_t op = attention_op(&shapes[i]);
    check_op(&op, &shapes[i], i == 0 ? 1 : 211);
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

static void run_classifier(const train_exec_t *exec, const shape_t *s, const void *x, const void *d,
                           bool overwrite, void *out, void *g, float *g_parameters) {
  const void *table = at(exec, x, rows_of(s) * (size_t)s->width);
  float scale;
  train_dtype_widen(exec->dtype, d, 1, &scale);
  double loss = train_ops_host.classifier(exec, x, table, tokens, (int)rows_of(s), s->width,
                                          s->classes, scale, overwrite, g, g_parameters);
  double loss_only = train_ops_host.classifier(exec, x, table, tokens, (int)rows_of(s), s->width,
                                               s->classes, 0, false, NULL, NULL);
  cr_assert_eq(loss, loss_only, "the loss without gradients is %.9g, not %.9g", loss_only, loss);
  *(float *)out = (float)loss;
}

static op_t classifier_op(const shape_t *s) {
  size_t ins = rows_of(s) * (size_t)s->width;
  return (op_t){"classifier",
                sum_of_classifier,
                ins + (size_t)(s->classes * s->width),
                ins,
                1,
                1.5,
                run_classifier,
                true};
}

Test(ops, classifier) {
  const shape_t shapes[] = {shape_of(2, 5, 1, 6, 0, 7), shape_of(2, 18, 1, 9, 0, 1100),
                            shape_of(2, 150, 1, 5, 0, 600)};
  for (int i = 0; i < 3; i++) {
    const op_t op = classifier_op(&shapes[i]);
    check_op(&op, &shapes[i], i == 0 ? 1 : 101);
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

/* ---- narrow types ---- */

/* Errors are bounded in units of the type's relative rounding error. */
typedef struct narrow_op {
  op_t (*of)(const shape_t *s);
  double forward, backward;
  double parameters; /* 0: as exact as in float32 */
} narrow_op_t;

static const narrow_op_t narrow_ops[] = {
    {embedding_op, 1, 0, 0},           {layernorm_op, 1, 1, 0},       {linear_op, 1, 1, 0},
    {linear_and_residual_op, 1, 1, 0}, {gelu_and_linear_op, 2, 1, 2}, /* the output of GELU is
                                                                         rounded */
    {attention_op, 2, 12, 0},  /* so are weights and their gradients */
    {classifier_op, 1, 4, 4}, /* and the gradients of logits */
};

static double unit_of(train_dtype_t dtype) {
  return dtype == TRAIN_BFLOAT16 ? 0x1p-8 : 0x1p-11;
}

/* The results of one run in one block of memory, all bits of which are compared. */
typedef struct narrow_result {
  size_t bytes;
  float *g_parameters;
  void *out, *g;
} narrow_result_t;

static narrow_result_t run_narrow(const op_t *op, const shape_t *s, const train_exec_t *exec,
                                  const void *x, const void *d) {
  size_t parameters = op->ins - op->parameters, bytes = sizeof(float) * (op->ins + op->outs);
  float *block = malloc(bytes);
  memset(block, 0xff, bytes);
  const narrow_result_t result = {bytes, block, block + parameters, block + parameters + op->outs};
  op->run(exec, s, x, d, true, result.out, result.g, result.g_parameters);
  return result;
}

static void check_near(const char *what, const char *part, train_dtype_t dtype, double units,
                       const double *expected, const float *got, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; i++) squares += expected[i] * expected[i] / (double)count;
  for (size_t i = 0; i < count; i++) {
    double size = fabs(expected[i]);
    double bound = units * unit_of(dtype) * (sqrt(squares) + size) + 5e-5 * (1 + size);
    cr_assert_float_eq((double)got[i], expected[i], bound, "%s, %s: %s[%zu] is %g, not %g +- %g",
                       what, train_dtype_name(dtype), part, i, (double)got[i], expected[i], bound);
  }
}

/* Compares a sample of the gradients of inputs [first, end), which include the last. */
static void check_sample(const op_t *op, const shape_t *s, train_dtype_t dtype, double units,
                         double *x, const float *d, size_t first, size_t end, const float *g) {
  enum { SAMPLES = 24 };
  double expected[SAMPLES], *out = malloc(op->outs * sizeof *out);
  float got[SAMPLES];
  for (uint64_t i = 0; i < SAMPLES && first < end; i++) {
    size_t skipped = train_random_below(op->ins, TRAIN_RANDOM_BATCHES, i, end - first);
    size_t input = i == 0 ? end - 1 : first + skipped;
    expected[i] = reference_gradient(op->reference, s, x, input, d, op->outs, out);
    got[i] = g[input - first];
  }
  if (first < end) check_near(op->name, "gradient", dtype, units, expected, got, SAMPLES);
  free(out);
}

/* values[count], which are rounded to the type, in the type. */
static void *narrowed(train_dtype_t dtype, float *values, size_t count) {
  void *narrow = malloc(count * sizeof *values);
  train_dtype_narrow(dtype, values, count, narrow);
  train_dtype_widen(dtype, narrow, count, values);
  return narrow;
}

static void compare_narrow(const narrow_op_t *row, const shape_t *s, train_dtype_t dtype,
                           const narrow_result_t *result, const float *x, const float *d) {
  const op_t op = row->of(s);
  double *wide = malloc(sizeof *wide * (op.ins + op.outs)), *expected = wide + op.ins;
  float *got = malloc(sizeof *got * (op.outs + op.parameters)), *g = got + op.outs;
  for (size_t i = 0; i < op.ins; i++) wide[i] = (double)x[i];
  op.reference(s, wide, expected);
  train_dtype_widen(op.float32_out ? TRAIN_FLOAT32 : dtype, result->out, op.outs, got);
  train_dtype_widen(dtype, result->g, op.parameters, g);
  check_near(op.name, "out", dtype, row->forward, expected, got, op.outs);
  check_sample(&op, s, dtype, row->backward, wide, d, 0, op.parameters, g);
  check_sample(&op, s, dtype, row->parameters, wide, d, op.parameters, op.ins,
               result->g_parameters);
  free(wide), free(got);
}

static void check_narrow(const narrow_op_t *row, const shape_t *s, train_dtype_t dtype,
                         uint64_t seed) {
  const op_t op = row->of(s);
  float *x = random_floats(seed, op.deviation, op.ins), *d = random_floats(seed + 1, 1, op.outs);
  void *narrow_x = narrowed(dtype, x, op.ins), *narrow_d = narrowed(dtype, d, op.outs);
  train_pool_t *pool;
  fill_tokens(s);
  narrow_result_t result = run_narrow(&op, s, exec_with(NULL, dtype), narrow_x, narrow_d);
  compare_narrow(row, s, dtype, &result, x, d);
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  narrow_result_t same = run_narrow(&op, s, exec_with(pool, dtype), narrow_x, narrow_d);
  cr_assert_arr_eq(result.g_parameters, same.g_parameters, result.bytes,
                   "%s, %s: other bits from 3 threads", op.name, train_dtype_name(dtype));
  train_pool_destroy(pool);
  free(x), free(d), free(narrow_x), free(narrow_d);
  free(result.g_parameters), free(same.g_parameters);
}

/* Every fourth shape has few wide rows, which span several tiles and blocks of conversion. */
static shape_t random_shape(uint64_t seed) {
  const uint64_t narrow_limits[] = {3, 20, 40, 3, 60, 60}, wide_limits[] = {3, 700, 3, 2, 900, 900};
  const uint64_t *limits = seed % 4 == 0 ? wide_limits : narrow_limits;
  int sizes[6];
  for (uint64_t i = 0; i < 6; i++) {
    sizes[i] = 1 + (int)train_random_below(seed, TRAIN_RANDOM_BATCHES, i, limits[i]);
  }
  return shape_of(sizes[3], sizes[2], sizes[0], sizes[0] * (1 + sizes[1]), sizes[4], 1 + sizes[5]);
}

static void check_narrow_type(train_dtype_t dtype) {
  size_t ops = sizeof narrow_ops / sizeof narrow_ops[0];
  uint64_t shapes = harness_full() ? 200 : 8;
  for (uint64_t seed = 0; seed < shapes; seed++) {
    const shape_t s = random_shape(seed);
    for (size_t i = 0; i < ops; i++) check_narrow(&narrow_ops[i], &s, dtype, 2 * seed);
  }
}

Test(ops, bfloat16) {
  check_narrow_type(TRAIN_BFLOAT16);
}

Test(ops, float16) {
  check_narrow_type(TRAIN_FLOAT16);
}
