/*
 * Attention and the classifier in narrow types, compared with the same operators in float32 on the
 * same (rounded) inputs, and their bits for several numbers of threads.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/ops/ops.h"
#include "reference.h"

/* Relative to the largest value of an array: a few roundings to 8 or 11 significant bits. */
static const double tolerances[] = {[TRAIN_BFLOAT16] = 0.02, [TRAIN_FLOAT16] = 0.003};

/* Arguments and results of either operator: void pointers are of the element type. */
typedef struct arrays {
  train_dtype_t dtype;
  void *in, *weights, *d_out; /* weights: the classifier's table; d_out: attention's */
  void *out, *d_in;
  float *sums; /* log_sums, or d_table */
  size_t ins, outs, sum_count;
} arrays_t;

static void *narrow_random(train_dtype_t dtype, uint64_t seed, double deviation, size_t count) {
  float *values = malloc((count + 1) * sizeof *values);
  random_fill(seed, deviation, count, values);
  train_dtype_narrow(dtype, values, count, values);
  return values;
}

static void *widened(train_dtype_t dtype, const void *narrow, size_t count) {
  float *values = malloc((count + 1) * sizeof *values);
  train_dtype_widen(dtype, narrow, count, values);
  return values;
}

typedef void run_t(const train_exec_t *exec, const void *shape, arrays_t *arrays);

/* Calls `run` with scratch of exactly the size that the operators ask for, followed by guards. */
static void run_with(run_t *run, const train_ops_sizes_t *sizes, const void *shape,
                     arrays_t *arrays) {
  enum { GUARDS = 64 };
  size_t needed = train_ops_host.scratch_floats(sizes);
  float *scratch = malloc((needed + GUARDS) * sizeof *scratch);
  train_exec_t exec = {.dtype = arrays->dtype, .scratch = scratch};
  memset(scratch, 0xff, (needed + GUARDS) * sizeof *scratch);
  cr_assert_eq(train_pool_create(sizes->threads, &exec.pool), COLL_OK);
  cr_assert_eq(train_gemm_create(exec.pool, &exec.gemm), COLL_OK);
  run(&exec, shape, arrays);
  for (size_t i = 0; i < GUARDS; i++) {
    cr_assert(isnan(scratch[needed + i]), "float %zu after the scratch was written", i);
  }
  train_gemm_destroy(exec.gemm);
  train_pool_destroy(exec.pool);
  free(scratch);
}

static void allocate_results(arrays_t *a) {
  a->out = malloc((a->outs + 1) * sizeof(float));
  a->d_in = malloc((a->ins + 1) * sizeof(float));
  a->sums = malloc((a->sum_count + 1) * sizeof(float));
  memset(a->out, 0xff, a->outs * sizeof(float));
  memset(a->d_in, 0xff, a->ins * sizeof(float));
  memset(a->sums, 0xff, a->sum_count * sizeof(float));
}

static void free_results(arrays_t *a) {
  free(a->out), free(a->d_in), free(a->sums);
}

static void check_close(const char *what, train_dtype_t dtype, const float *values,
                        const float *expected, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)expected[i]));
  for (size_t i = 0; i < count; i++) {
    double error = fabs((double)values[i] - (double)expected[i]) / largest;
    cr_assert(error <= tolerances[dtype], "%s, %s: [%zu] is %g, not %g", train_dtype_name(dtype),
              what, i, (double)values[i], (double)expected[i]);
  }
}

static void check_narrow(const char *what, const arrays_t *narrow, const void *values,
                         const void *expected, size_t count) {
  float *wide = widened(narrow->dtype, values, count);
  check_close(what, narrow->dtype, wide, expected, count);
  free(wide);
}

/* Runs in float32 with 1 thread and in the narrow type with 2 and 3. */
static void check(run_t *run, train_ops_sizes_t sizes, const void *shape, arrays_t narrow,
                  size_t weights) {
  arrays_t wide = narrow, again = narrow;
  wide.dtype = TRAIN_FLOAT32;
  wide.in = widened(narrow.dtype, narrow.in, narrow.ins);
  wide.weights = widened(narrow.dtype, narrow.weights, weights);
  wide.d_out = widened(narrow.dtype, narrow.d_out, narrow.outs);
  arrays_t *all[] = {&wide, &narrow, &again};
  for (int i = 0; i < 3; i++) {
    allocate_results(all[i]);
    sizes.dtype = all[i]->dtype;
    sizes.threads = i + 1;
    run_with(run, &sizes, shape, all[i]);
  }
  check_narrow("out", &narrow, narrow.out, wide.out, narrow.outs);
  check_narrow("d_in", &narrow, narrow.d_in, wide.d_in, narrow.ins);
  check_close("float32 result", narrow.dtype, narrow.sums, wide.sums, narrow.sum_count);
  size_t bytes = train_dtype_bytes(narrow.dtype);
  cr_assert_arr_eq(narrow.out, again.out, narrow.outs * bytes);
  cr_assert_arr_eq(narrow.d_in, again.d_in, narrow.ins * bytes);
  cr_assert_arr_eq(narrow.sums, again.sums, narrow.sum_count * sizeof(float));
  for (int i = 0; i < 3; i++) free_results(all[i]);
  free(wide.in), free(wide.weights), free(wide.d_out);
}

/* ---- attention ---- */

typedef struct attention_shape {
  int sequences, length, heads, width;
} attention_shape_t;

static void run_attention(const train_exec_t *exec, const void *shape, arrays_t *a) {
  const attention_shape_t *s = shape;
  const train_batch_t batch = {.sequences = s->sequences, .length = s->length};
  train_ops_host.attention_forward(exec, &batch, a->in, s->heads, s->width, a->out, a->sums);
  train_ops_host.attention_backward(exec, &batch, a->d_out, a->in, a->out, a->sums, s->heads,
                                    s->width, a->d_in);
}

Test(attention, narrow_types_agree_with_float32) {
  const attention_shape_t shapes[] = {{2, 5, 2, 6}, {1, 64, 3, 48}, {2, 300, 2, 32}};
  for (int i = 0; i < 6; i++) {
    const attention_shape_t *s = &shapes[i % 3];
    train_dtype_t dtype = i < 3 ? TRAIN_BFLOAT16 : TRAIN_FLOAT16;
    int rows = s->sequences * s->length;
    size_t outs = (size_t)rows * (size_t)s->width;
    const train_ops_sizes_t sizes = {.rows = rows,
                                     .length = s->length,
                                     .head_width = s->width / s->heads,
                                     .width = s->width,
                                     .vocabulary = 1,
                                     .training = true};
    arrays_t arrays = {.dtype = dtype,
                       .in = narrow_random(dtype, 1, 1, 3 * outs),
                       .weights = narrow_random(dtype, 3, 1, 0),
                       .d_out = narrow_random(dtype, 2, 1, outs),
                       .ins = 3 * outs,
                       .outs = outs,
                       .sum_count = (size_t)rows * (size_t)s->heads};
    check(run_attention, sizes, s, arrays, 0);
    free(arrays.in), free(arrays.weights), free(arrays.d_out);
  }
}

/* Queries of a later call give the results of a call with all queries. */
Test(attention, extends_a_sequence_in_narrow_types) {
  enum { LENGTH = 200, WIDTH = 8, HEADS = 2, FIRST = 190 };
  for (train_dtype_t dtype = TRAIN_BFLOAT16; dtype <= TRAIN_FLOAT16; dtype++) {
    const train_ops_sizes_t sizes = {.rows = LENGTH,
                                     .length = LENGTH,
                                     .head_width = WIDTH / HEADS,
                                     .width = WIDTH,
                                     .vocabulary = 1,
                                     .threads = 1,
                                     .dtype = dtype};
    uint16_t *qkv = narrow_random(dtype, 5, 1, LENGTH * 3 * WIDTH);
    uint16_t whole[LENGTH * WIDTH], part[LENGTH * WIDTH];
    float log_sums[LENGTH * HEADS], a[LENGTH * WIDTH], b[LENGTH * WIDTH];
    float *scratch = malloc(train_ops_host.scratch_floats(&sizes) * sizeof *scratch);
    train_exec_t exec = {.dtype = dtype, .scratch = scratch};
    const train_batch_t all = {.sequences = 1, .length = LENGTH};
    const train_batch_t rest = {.sequences = 1, .length = LENGTH - FIRST, .first = FIRST};
    cr_assert_eq(train_gemm_create(NULL, &exec.gemm), COLL_OK);
    train_ops_host.attention_forward(&exec, &all, qkv, HEADS, WIDTH, whole, log_sums);
    train_ops_host.attention_forward(&exec, &rest, qkv, HEADS, WIDTH, part, log_sums);
    size_t count = (size_t)(rest.length * WIDTH);
    train_dtype_widen(dtype, whole + FIRST * WIDTH, count, a);
    train_dtype_widen(dtype, part, count, b);
    check_close("continued out", dtype, b, a, count);
    train_gemm_destroy(exec.gemm);
    free(qkv), free(scratch);
  }
}

/* ---- classifier ---- */

typedef struct classifier_shape {
  int rows, width, classes;
} classifier_shape_t;

static void run_classifier(const train_exec_t *exec, const void *shape, arrays_t *a) {
  const classifier_shape_t *s = shape;
  int32_t targets[600];
  for (int i = 0; i < s->rows; i++) targets[i] = (int32_t)(i * 977L % s->classes);
  double loss = train_ops_host.classifier(exec, a->in, a->weights, targets, s->rows, s->width,
                                          (train_vocabulary_t){.count = s->classes}, NULL, 0.5f,
                                          true, a->d_in, a->sums);
  float rounded = (float)loss;
  train_dtype_narrow(exec->dtype, &rounded, 1, a->out);
}

/* More than one block of rows, of classes and of classes in a part. */
Test(classifier, narrow_types_agree_with_float32) {
  const classifier_shape_t shapes[] = {{10, 6, 7}, {520, 9, 1100}, {3, 5, 17000}};
  for (int i = 0; i < 6; i++) {
    const classifier_shape_t *s = &shapes[i % 3];
    train_dtype_t dtype = i < 3 ? TRAIN_BFLOAT16 : TRAIN_FLOAT16;
    size_t ins = (size_t)s->rows * (size_t)s->width, table = (size_t)s->classes * (size_t)s->width;
    const train_ops_sizes_t sizes = {.rows = s->rows,
                                     .length = 1,
                                     .head_width = 1,
                                     .width = s->width,
                                     .vocabulary = s->classes,
                                     .training = true};
    arrays_t arrays = {.dtype = dtype,
                       .in = narrow_random(dtype, 1, 1, ins),
                       .weights = narrow_random(dtype, 3, 1, table),
                       .d_out = narrow_random(dtype, 2, 1, 1),
                       .ins = ins,
                       .outs = 1,
                       .sum_count = table};
    check(run_classifier, sizes, s, arrays, table);
    free(arrays.in), free(arrays.weights), free(arrays.d_out);
  }
}
