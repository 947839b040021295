/*
 * Compares each operator of the host backend in the narrow types with its reference, at random
 * shapes: results, a sample of gradients, and identical bits for any number of threads.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"
#include "libtrain/common/random.h"
#include "op_cases.h"

/* Errors are bounded in units of the type's relative rounding error. */
typedef struct narrow_op {
  op_case_t (*of)(const shape_t *s);
  double forward, backward;
  double parameters; /* 0: as exact as in float32 */
} narrow_op_t;

static const narrow_op_t narrow_ops[] = {
    {op_case_embedding, 1, 0, 0},
    {op_case_layernorm, 1, 1, 0},
    {op_case_linear, 1, 1, 0},
    {op_case_linear_and_residual, 1, 1, 0},
    {op_case_bias_residual, 1, 0, 0},
    {op_case_gelu_and_linear, 2, 1, 2}, /* the output of GELU is
                                 rounded */
    {op_case_attention_segments, 2, 12, 0},
    {op_case_attention, 2, 12, 0}, /* so are weights and their gradients */
    {op_case_classifier, 1, 4, 4}, /* and the gradients of logits */
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

static narrow_result_t run_narrow(const op_case_t *op, const shape_t *s, const train_exec_t *exec,
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
static void check_sample(const op_case_t *op, const shape_t *s, train_dtype_t dtype, double units,
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
  const op_case_t op = row->of(s);
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
  const op_case_t op = row->of(s);
  float *x = op_random(seed, op.deviation, op.ins), *d = op_random(seed + 1, 1, op.outs);
  void *narrow_x = narrowed(dtype, x, op.ins), *narrow_d = narrowed(dtype, d, op.outs);
  train_pool_t *pool;
  op_fill_tokens(s);
  narrow_result_t result = run_narrow(&op, s, op_exec_with(NULL, dtype), narrow_x, narrow_d);
  compare_narrow(row, s, dtype, &result, x, d);
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  narrow_result_t same = run_narrow(&op, s, op_exec_with(pool, dtype), narrow_x, narrow_d);
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
  return op_shape(sizes[3], sizes[2], sizes[0], sizes[0] * (1 + sizes[1]), sizes[4], 1 + sizes[5]);
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
