/*
 * Matrix products of every back end are compared with float64 sums: random shapes, transposes,
 * strides, additions, tiles without an output, and all element types; identical bits for any number
 * of threads; choices that are remembered; and the name of a back end that does not exist.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "folder.h"
#include "harness/sample.h"
#include "libtrain/common/random.h"
#include "libtrain/gemm/gemm.h"

#define THREADS_MAX 4

static const char *const backends[] = {"onednn", "openblas", "plain"};

/* The matrices of a product. Between rows lie `gap` elements that must not be used or changed. */
typedef struct matrices {
  train_product_t product;
  void *a, *b;
  float *before, *out; /* [rows][out_stride] */
  double *expected;    /* [rows][columns] */
  size_t out_count;
} matrices_t;

static uint64_t draws;

static int draw(int least, int most) {
  return least +
         (int)train_random_below(1, TRAIN_RANDOM_BATCHES, draws++, (uint64_t)(most - least + 1));
}

static void *random_operand(train_dtype_t dtype, size_t count) {
  float *wide = malloc(count * sizeof *wide);
  void *narrow = malloc(count * sizeof(float));
  train_random_normals(2, TRAIN_RANDOM_WEIGHTS, draws, count, 1.0, wide);
  draws += count;
  train_dtype_narrow(dtype, wide, count, narrow);
  free(wide);
  return narrow;
}

static float *widened(train_dtype_t dtype, const void *array, size_t count) {
  float *wide = malloc(count * sizeof *wide);
  train_dtype_widen(dtype, array, count, wide);
  return wide;
}

static void expect(const matrices_t *m, size_t a_count, size_t b_count) {
  const train_product_t *p = &m->product;
  float *a = widened(p->dtype, m->a, a_count), *b = widened(p->dtype, m->b, b_count);
  int a_row = p->a_transposed ? 1 : p->a_stride, a_step = p->a_transposed ? p->a_stride : 1;
  int b_row = p->b_transposed ? 1 : p->b_stride, b_step = p->b_transposed ? p->b_stride : 1;
  for (int i = 0; i < p->rows; i++) {
    double *row = m->expected + i * p->columns;
    for (int j = 0; j < p->columns; j++) {
      row[j] = p->add ? (double)m->before[i * p->out_stride + j] : 0;
    }
    for (int k = 0; k < p->depth; k++) {
      double factor = (double)a[i * a_row + k * a_step];
      for (int j = 0; j < p->columns; j++) row[j] += factor * (double)b[k * b_row + j * b_step];
    }
  }
  free(a);
  free(b);
}

static matrices_t make(int rows, int columns, int depth, int gap, train_dtype_t dtype,
                       int variant) {
  matrices_t m = {.product = {.rows = rows,
                              .columns = columns,
                              .depth = depth,
                              .dtype = dtype,
                              .a_transposed = (variant & 1) != 0,
                              .b_transposed = (variant & 2) != 0,
                              .add = (variant & 4) != 0}};
  train_product_t *p = &m.product;
  p->a_stride = (p->a_transposed ? rows : depth) + gap;
  p->b_stride = (p->b_transposed ? depth : columns) + gap;
  p->out_stride = columns + gap;
  size_t a_count = (size_t)p->a_stride * (size_t)(p->a_transposed ? depth : rows);
  size_t b_count = (size_t)p->b_stride * (size_t)(p->b_transposed ? columns : depth);
  m.a = random_operand(dtype, a_count);
  m.b = random_operand(dtype, b_count);
  m.out_count = (size_t)p->out_stride * (size_t)rows;
  m.before = random_operand(TRAIN_FLOAT32, m.out_count);
  m.out = malloc(m.out_count * sizeof *m.out);
  m.expected = malloc((size_t)rows * (size_t)columns * sizeof *m.expected);
  for (int i = 0; i < rows && !p->add; i++) { /* what is overwritten may be anything */
    memset(m.before + i * p->out_stride, 0xff, (size_t)columns * sizeof *m.before);
  }
  p->a = m.a;
  p->b = m.b;
  p->out = m.out;
  expect(&m, a_count, b_count);
  return m;
}

static void release(matrices_t *m) {
  free(m->a);
  free(m->b);
  free(m->before);
  free(m->out);
  free(m->expected);
}

static void check_row(const matrices_t *m, int row, const char *what) {
  const train_product_t *p = &m->product;
  double tolerance = 4e-6 * sqrt(p->depth) + 1e-6;
  const float *out = m->out + row * p->out_stride;
  for (int j = 0; j < p->columns; j++) {
    double expected = m->expected[row * p->columns + j];
    if (fabs((double)out[j] - expected) <= tolerance * (1 + fabs(expected))) continue;
    cr_assert_fail("%s: %dx%dx%d %s a %d b %d add %d: [%d][%d] is %g, not %g", what, p->rows,
                   p->columns, p->depth, train_dtype_name(p->dtype), p->a_transposed,
                   p->b_transposed, p->add, row, j, (double)out[j], expected);
  }
  cr_assert_eq(memcmp(out + p->columns, m->before + row * p->out_stride + p->columns,
                      (size_t)(p->out_stride - p->columns) * sizeof *out),
               0, "%s: wrote between rows", what);
}

static void check(const matrices_t *m, const char *what) {
  for (int row = 0; row < m->product.rows; row++) check_row(m, row, what);
}

static train_gemm_t *create(const char *backend, train_pool_t *pool) {
  train_gemm_t *gemm;
  if (backend != NULL) setenv("LIBTRAIN_GEMM", backend, 1);
  coll_status_t status = train_gemm_create(pool, &gemm);
  unsetenv("LIBTRAIN_GEMM");
  return status == COLL_OK ? gemm : NULL;
}

static train_pool_t *pool_of(int threads) {
  train_pool_t *pool;
  cr_assert_eq(train_pool_create(threads, &pool), COLL_OK, "%s", base_last_error());
  return pool;
}

static void no_cache_folder(void) {
  setenv("XDG_CACHE_HOME", "/dev/null", 1);
  unsetenv("LIBTRAIN_GEMM");
}

/* ---- results ---- */

/* An epilogue that stores the tiles itself, as those do that round to a narrow type. */
static void store_tile(const void *context, const train_tile_t *tile) {
  const matrices_t *m = context;
  for (int i = 0; i < tile->rows; i++) {
    memcpy(m->out + (tile->row + i) * m->product.out_stride + tile->column,
           tile->values + i * tile->stride, (size_t)tile->columns * sizeof(float));
  }
}

static void run_and_check(train_gemm_t *gemm, matrices_t *m, const char *what) {
  memcpy(m->out, m->before, m->out_count * sizeof(float));
  train_gemm_run(gemm, &m->product, 1);
  check(m, what);
  memcpy(m->out, m->before, m->out_count * sizeof(float));
  train_gemm_run_serial(gemm, 0, &m->product);
  check(m, what);
  if (m->product.add) return;
  memcpy(m->out, m->before, m->out_count * sizeof(float));
  train_product_t to_epilogue = m->product;
  to_epilogue.out = NULL;
  to_epilogue.epilogue = store_tile;
  to_epilogue.context = m;
  train_gemm_run(gemm, &to_epilogue, 1);
  check(m, what);
}

static void check_shape(train_gemm_t *gemm, const char *what, int rows, int columns, int depth) {
  static unsigned number;
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    for (int variant = 0; variant < 8; variant++) {
      if (!harness_takes(HARNESS_VALUES, number++)) continue;
      matrices_t m = make(rows, columns, depth, draw(0, 2) * draw(0, 9), dtype, variant);
      run_and_check(gemm, &m, what);
      release(&m);
    }
  }
}

static void check_backend(const char *backend) {
  train_pool_t *pool = pool_of(3);
  train_gemm_t *gemm = create(backend, pool);
  const char *what = backend != NULL ? backend : "chosen";
  if (gemm == NULL) {
    fprintf(stderr, "%s is not available: %s\n", backend, base_last_error());
  } else {
    for (int i = 0; i < 6; i++) {
      check_shape(gemm, what, draw(1, 90), draw(1, 120), draw(1, 130));
    }
    check_shape(gemm, what, 1, 70, 600);
    check_shape(gemm, what, 270, 400, 270);
    check_shape(gemm, what, 520, 17, 33);
    check_shape(gemm, what, 64, 64, 64);
  }
  train_gemm_destroy(gemm);
  train_pool_destroy(pool);
}

Test(gemm, onednn_multiplies, .init = no_cache_folder) {
  check_backend(backends[0]);
}

Test(gemm, openblas_multiplies, .init = no_cache_folder) {
  check_backend(backends[1]);
}

Test(gemm, plain_c_multiplies, .init = no_cache_folder) {
  train_gemm_t *gemm = create("plain", NULL);
  cr_assert_not_null(gemm);
  train_gemm_destroy(gemm);
  check_backend(backends[2]);
}

Test(gemm, chooses_without_a_cache_folder, .init = no_cache_folder) {
  check_backend(NULL);
}

Test(gemm, chooses_by_measurement) {
  folder_t folder;
  folder_make(&folder);
  setenv("XDG_CACHE_HOME", folder.path, 1);
  unsetenv("LIBTRAIN_GEMM");
  check_backend(NULL);
  folder_remove(&folder);
}

/* ---- bits ---- */

/* Two concurrent products, as in the backward pass. */
static void run_two(train_gemm_t *gemm, const matrices_t m[2]) {
  const train_product_t products[] = {m[0].product, m[1].product};
  for (int i = 0; i < 2; i++) memcpy(m[i].out, m[i].before, m[i].out_count * sizeof(float));
  train_gemm_run(gemm, products, 2);
}

static void check_bits(const char *backend, const matrices_t m[2]) {
  float *first[2] = {malloc(m[0].out_count * sizeof(float)),
                     malloc(m[1].out_count * sizeof(float))};
  for (int threads = 1; threads <= THREADS_MAX; threads++) {
    train_pool_t *pool = pool_of(threads);
    train_gemm_t *gemm = create(backend, pool);
    for (int i = 0; i < 2 && gemm != NULL; i++) {
      run_two(gemm, m);
      size_t bytes = m[i].out_count * sizeof(float);
      if (threads == 1) memcpy(first[i], m[i].out, bytes);
      cr_assert_eq(memcmp(first[i], m[i].out, bytes), 0, "%s: other bits with %d threads", backend,
                   threads);
    }
    train_gemm_destroy(gemm);
    train_pool_destroy(pool);
  }
  free(first[0]);
  free(first[1]);
}

Test(gemm, has_the_same_bits_for_any_number_of_threads, .init = no_cache_folder) {
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    matrices_t m[2] = {make(600, 500, 70, 3, dtype, 4), make(530, 800, 65, 0, dtype, 1)};
    for (int i = 0; i < 3; i++) check_bits(backends[i], m);
    release(&m[0]);
    release(&m[1]);
  }
}

/* ---- choices ---- */

static void keep_rate(void *context, const train_kernel_info_t *info) {
  double *rate = context;
  *rate = info->flops;
}

static double rate_of_choice(void) {
  train_gemm_t *gemm = create(NULL, NULL);
  cr_assert_not_null(gemm, "%s", base_last_error());
  double rate = -1;
  train_gemm_prepare(gemm, &(train_product_t){.rows = 60,
                                              .columns = 50,
                                              .depth = 40,
                                              .a_stride = 40,
                                              .b_stride = 50,
                                              .out = (float[1]){0},
                                              .out_stride = 50});
  train_gemm_describe(gemm, keep_rate, &rate);
  train_gemm_destroy(gemm);
  return rate;
}

/* Measured again, a rate would have other digits. */
Test(gemm, remembers_choices) {
  folder_t folder;
  folder_make(&folder);
  setenv("XDG_CACHE_HOME", folder.path, 1);
  unsetenv("LIBTRAIN_GEMM");
  double measured = rate_of_choice();
  cr_assert_gt(measured, 0);
  cr_assert_eq(rate_of_choice(), rate_of_choice());
  cr_assert_float_eq(rate_of_choice(), measured, 1.0);
  no_cache_folder();
  cr_assert_eq(rate_of_choice(), 0);
  folder_remove(&folder);
}

Test(gemm, names_the_back_ends_that_exist) {
  setenv("LIBTRAIN_GEMM", "mkl", 1);
  train_gemm_t *gemm;
  cr_assert_eq(train_gemm_create(NULL, &gemm), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "LIBTRAIN_GEMM is 'mkl'"), "%s", base_last_error());
  cr_assert_not_null(strstr(base_last_error(), "plain"), "%s", base_last_error());
}

Test(gemm, measures_the_rate_of_each_type, .init = no_cache_folder) {
  train_pool_t *pool = pool_of(2);
  for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
    train_gemm_rate_t rate;
    cr_assert_eq(train_gemm_measure(pool, dtype, &rate), COLL_OK, "%s", base_last_error());
    cr_assert_gt(rate.flops, 0);
    cr_assert_gt(strlen(rate.backend), 0);
  }
  train_pool_destroy(pool);
}
