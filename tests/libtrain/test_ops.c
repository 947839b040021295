/*
 * Compares each operator of the host backend with its reference: results, gradients, accumulation
 * of gradients, and identical bits for any number of threads; in float32 at chosen shapes, whose
 * sizes are odd, so that vector loops have remainders; the largest ones span several tiles.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "op_cases.h"

/* Runs two passes: the first must overwrite NaNs, the second must add. */
static void run_twice(const op_case_t *op, const shape_t *s, const train_exec_t *exec,
                      const float *x, const float *d, float *out, float *once, float *twice) {
  memset(once, 0xff, op->ins * sizeof *once);
  memset(out, 0xff, op->outs * sizeof *out);
  op->run(exec, s, x, d, true, out, once, once + op->parameters);
  memcpy(twice, once, op->ins * sizeof *once);
  op->run(exec, s, x, d, false, out, twice, twice + op->parameters);
}

static void check_addition(const op_case_t *op, const float *once, const float *twice) {
  for (size_t i = 0; i < op->ins; i++) {
    double expected = (double)once[i] * (i < op->parameters ? 1 : 2);
    cr_assert_float_eq((double)twice[i], expected, 2e-5 * (1 + fabs(expected)),
                       "%s: gradient[%zu] is %g when added to %g", op->name, i, (double)twice[i],
                       (double)once[i]);
  }
}

/* Compares gradients with central differences at every stride-th input. */
static void check_op(const op_case_t *op, const shape_t *s, size_t stride) {
  float *x = op_random(1, op->deviation, op->ins), *d = op_random(2, 1, op->outs);
  float *results[2] = {malloc((2 * op->ins + op->outs) * sizeof(float)),
                       malloc((2 * op->ins + op->outs) * sizeof(float))};
  op_fill_tokens(s);
  float *once = results[0], *twice = once + op->ins, *out = twice + op->ins;
  run_twice(op, s, op_exec(NULL), x, d, out, once, twice);
  check_forward(op->name, op->reference, s, x, op->ins, out, op->outs);
  check_gradients(op->name, op->reference, s, x, op->ins, stride, d, op->outs, once);
  check_addition(op, once, twice);
  for (int threads = 1; threads <= 4; threads++) {
    train_pool_t *pool;
    cr_assert_eq(train_pool_create(threads, &pool), COLL_OK);
    run_twice(op, s, op_exec(pool), x, d, results[1] + 2 * op->ins, results[1],
              results[1] + op->ins);
    cr_assert_arr_eq(results[0], results[1], (2 * op->ins + op->outs) * sizeof(float),
                     "%s: other bits from %d threads", op->name, threads);
    train_pool_destroy(pool);
  }
  free(x), free(d), free(results[0]), free(results[1]);
}

Test(ops, embedding) {
  const shape_t shapes[] = {op_shape(2, 5, 1, 6, 0, 7), op_shape(3, 18, 1, 150, 0, 7)};
  for (int i = 0; i < 2; i++) {
    const op_case_t op = op_case_embedding(&shapes[i]);
    check_op(&op, &shapes[i], i == 0 ? 1 : 17);
  }
}

Test(ops, layernorm) {
  const shape_t shapes[] = {op_shape(2, 5, 1, 6, 0, 7), op_shape(3, 18, 1, 37, 0, 7)};
  for (int i = 0; i < 2; i++) {
    const op_case_t op = op_case_layernorm(&shapes[i]);
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
    train_ops_host.layernorm_backward(op_exec_with(NULL, dtype), arrays[2], arrays[0], arrays[1],
                                      mean, rstd, 1, 3, i == 0, true, arrays[3 + i], d_weight,
                                      d_bias);
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

Test(ops, linear) {
  const shape_t shapes[] = {op_shape(2, 5, 1, 6, 7, 7), op_shape(1, 1, 1, 37, 19, 7),
                            op_shape(2, 18, 1, 37, 19, 7), op_shape(2, 150, 1, 30, 210, 7)};
  for (int i = 0; i < 4; i++) {
    const shape_t *s = &shapes[i];
    size_t stride = i == 0 ? 1 : i < 3 ? 7 : 299;
    const op_case_t ops[] = {op_case_linear(s), op_case_linear_and_residual(s),
                             op_case_gelu_and_linear(s), op_case_bias_residual(s)};
    for (int which = 0; which < 4; which++) check_op(&ops[which], s, stride);
  }
}

static void check_without_bias(train_dtype_t dtype) {
  float in[] = {1, 2, 3, 4}, weight[] = {3, 4}, out[] = {NAN, NAN};
  const train_linear_t linear = {.in_width = 2, .out_width = 1};
  train_dtype_narrow(dtype, in, 4, in);
  train_dtype_narrow(dtype, weight, 2, weight);
  for (int rows = 1; rows <= 2; rows++) {
    float wide[2];
    train_ops_host.linear_forward(op_exec_with(NULL, dtype), &linear, in, rows, weight, NULL, NULL,
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

Test(ops, attention) {
  const shape_t shapes[] = {op_shape(2, 5, 2, 6, 0, 7), op_shape(2, 64, 3, 36, 0, 7),
                            op_shape(2, 150, 2, 12, 0, 7)};
  for (int i = 0; i < 3; i++) {
    const op_case_t ops[] = {op_case_attention(&shapes[i]), op_case_attention_segments(&shapes[i])};
    for (int which = 0; which < 2; which++) check_op(&ops[which], &shapes[i], i == 0 ? 1 : 211);
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
  train_ops_host.attention_forward(op_exec(NULL), &batch, qkv, 1, WIDTH, out, log_sums);
  for (int t = 0; t < LENGTH; t++) {
    cr_assert_float_eq((double)out[t * WIDTH], t, 1e-4, "at %d: %g", t, (double)out[t * WIDTH]);
  }
}

Test(ops, attention_extends_a_sequence) {
  enum { LENGTH = 150, WIDTH = 12, HEADS = 3 };
  float *qkv = op_random(3, 1, LENGTH * 3 * WIDTH);
  float whole[LENGTH * WIDTH], part[LENGTH * WIDTH], log_sums[LENGTH * HEADS];
  const train_batch_t all = {.sequences = 1, .length = LENGTH};
  train_ops_host.attention_forward(op_exec(NULL), &all, qkv, HEADS, WIDTH, whole, log_sums);
  const int starts[] = {1, 63, 64, 100, LENGTH - 1};
  for (int i = 0; i < 5; i++) {
    const train_batch_t rest = {.sequences = 1, .length = LENGTH - starts[i], .first = starts[i]};
    train_ops_host.attention_forward(op_exec(NULL), &rest, qkv, HEADS, WIDTH, part, log_sums);
    for (int j = 0; j < rest.length * WIDTH; j++) {
      cr_assert_float_eq((double)part[j], (double)whole[starts[i] * WIDTH + j], 1e-5);
    }
  }
  free(qkv);
}

Test(ops, classifier) {
  const shape_t shapes[] = {op_shape(2, 5, 1, 6, 0, 7), op_shape(2, 18, 1, 9, 0, 1100),
                            op_shape(2, 150, 1, 5, 0, 600)};
  for (int i = 0; i < 3; i++) {
    const op_case_t op = op_case_classifier(&shapes[i]);
    check_op(&op, &shapes[i], i == 0 ? 1 : 101);
  }
}

Test(ops, classifier_is_finite_for_huge_logits) {
  const float in[] = {1}, table[] = {1e4f, -1e4f, 9.99e3f};
  const int32_t target = 1;
  float d_in[1], d_table[3];
  double loss =
      train_ops_host.classifier(op_exec(NULL), in, table, &target, 1, 1,
                                (train_vocabulary_t){.count = 3}, NULL, 1, true, d_in, d_table);
  cr_assert_float_eq(loss, 2e4, 1e-2);
  cr_assert_float_eq((double)(d_table[0] + d_table[1] + d_table[2]), 0, 1e-6);
  cr_assert_float_eq((double)d_table[1], -1, 1e-6);
}

Test(ops, scratch_size_is_sufficient) {
  const train_ops_sizes_t small = {.rows = 8,
                                   .length = 8,
                                   .width = 16,
                                   .head_width = 8,
                                   .vocabulary = 300,
                                   .threads = 2,
                                   .training = true};
  train_ops_sizes_t large = small;
  size_t needed = train_ops_host.scratch_floats(&small);
  large.rows *= 100, large.length *= 100, large.vocabulary *= 10;
  cr_assert_gt(needed, 8 * 300);
  cr_assert_gt(train_ops_host.scratch_floats(&large), needed);
}
