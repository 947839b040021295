/*
 * Each product is measured alone with train_gemm_run, with its factors in the cache if they fit.
 */
#include "bench/step_limit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/parallel/memory.h"

#define TRY_NS UINT64_C(60000000) /* duration of each measurement */
#define MIN_TRIES 5
#define MEMORY_TRIES 5
#define ADAMW_STREAMS 4
#define UPDATE_PASSES 7       /* of update_run over arrays of floats */
#define SQUARE 1536           /* of the product whose rate is reported */
#define RUN ((size_t)1 << 16) /* elements per task */
#define LANES 32              /* concurrent sums */

typedef struct product {
  const char *name;
  int times; /* per step */
  int rows, columns, depth;
  bool a_transposed, b_transposed;
} product_t;

enum { LAYER_PRODUCTS = 12, PRODUCTS = LAYER_PRODUCTS + 3 };

typedef struct limit {
  product_t products[PRODUCTS];
  double product_ms[PRODUCTS]; /* of one product */
  double norm_bytes, norm_ms, update_bytes, update_ms;
} limit_t;

static double total_ms(const limit_t *limit) {
  double sum = limit->norm_ms + limit->update_ms;
  for (int i = 0; i < PRODUCTS; i++) sum += limit->product_ms[i] * limit->products[i].times;
  return sum;
}

/* Adds the three products of a linear layer: forward, input gradient, weight gradient. */
static void add_linear(const char *const names[3], int times, int rows, int in, int out,
                       product_t *products) {
  products[0] = (product_t){names[0], times, rows, out, in, false, true};
  products[1] = (product_t){names[1], times, rows, in, out, false, false};
  products[2] = (product_t){names[2], times, out, in, rows, true, false};
}

static void list_products(const train_model_config_t *config, int rows, product_t *products) {
  static const char *const names[][3] = {
      {"queries, keys, values", "  input's gradient", "  weight's gradient"},
      {"attention's output", "  input's gradient", "  weight's gradient"},
      {"hidden layer", "  input's gradient", "  weight's gradient"},
      {"MLP's output", "  input's gradient", "  weight's gradient"},
      {"classifier", "  input's gradient", "  table's gradient"}};
  int width = config->width, layers = config->layers;
  add_linear(names[0], layers, rows, width, 3 * width, products);
  add_linear(names[1], layers, rows, width, width, products + 3);
  add_linear(names[2], layers, rows, width, 4 * width, products + 6);
  add_linear(names[3], layers, rows, 4 * width, width, products + 9);
  add_linear(names[4], 1, rows, width, config->vocabulary, products + LAYER_PRODUCTS);
}

/* ---- products ---- */

static double best_ms(train_gemm_t *gemm, const train_product_t *product) {
  double best = 0;
  uint64_t began_ns = base_clock_now_ns();
  for (int i = 0; i < MIN_TRIES || base_clock_now_ns() - began_ns < TRY_NS; i++) {
    uint64_t start_ns = base_clock_now_ns();
    train_gemm_run(gemm, product, 1);
    double ms = (double)(base_clock_now_ns() - start_ns) * 1e-6;
    best = i == 0 || ms < best ? ms : best;
  }
  return best;
}

static double gflops(const product_t *product, double ms) {
  return 2e-6 * product->rows * product->columns * product->depth / ms;
}

/* The minimum time of the product. */
static coll_status_t try_product(const product_t *product, train_pool_t *pool, train_dtype_t dtype,
                                 double *ms) {
  size_t rows = (size_t)product->rows, columns = (size_t)product->columns;
  size_t depth = (size_t)product->depth, a = rows * depth, b = depth * columns;
  void *memory;
  COLL_TRY(base_alloc(a + b + rows * columns, sizeof(float), "a product", &memory));
  float *floats = memory;
  for (size_t i = 0; i < a + b; i++) floats[i] = (float)(i % 7) - 3.0f;
  train_dtype_narrow(dtype, floats, a + b, floats);
  const train_product_t timed = {
      .rows = product->rows,
      .columns = product->columns,
      .depth = product->depth,
      .dtype = dtype,
      .a = floats,
      .a_stride = product->a_transposed ? product->rows : product->depth,
      .a_transposed = product->a_transposed,
      .b = train_dtype_const_at(dtype, floats, a),
      .b_stride = product->b_transposed ? product->depth : product->columns,
      .b_transposed = product->b_transposed,
      .out = floats + a + b,
      .out_stride = product->columns};
  train_gemm_t *gemm;
  coll_status_t status = train_gemm_create(pool, &gemm);
  if (status == COLL_OK) *ms = best_ms(gemm, &timed);
  train_gemm_destroy(gemm);
  free(memory);
  return status;
}

static void print_product(FILE *out, const product_t *product, double ms) {
  fprintf(out, "%-22s %5d %6d %7d %6d %9.1f %8.1f\n", product->name, product->times, product->rows,
          product->columns, product->depth, gflops(product, ms), ms * product->times);
}

/* ---- memory ---- */

typedef struct streams {
  size_t count;                 /* elements per array */
  float *arrays[ADAMW_STREAMS]; /* the first one is only read */
  float *sums;                  /* [tasks] */
} streams_t;

static size_t run_end(const streams_t *s, int task) {
  size_t end = ((size_t)task + 1) * RUN;
  return end < s->count ? end : s->count;
}

static void read_run(void *context, int task, int thread) {
  const streams_t *s = context;
  float lanes[LANES] = {0};
  (void)thread;
  for (size_t i = (size_t)task * RUN; i + LANES <= run_end(s, task); i += LANES) {
    for (int lane = 0; lane < LANES; lane++) lanes[lane] += s->arrays[0][i + (size_t)lane];
  }
  s->sums[task] = 0;
  for (int lane = 0; lane < LANES; lane++) s->sums[task] += lanes[lane];
}

/* The memory traffic of AdamW in float32: reads four arrays, writes three. */
static void update_run(void *context, int task, int thread) {
  const streams_t *s = context;
  const float *from = s->arrays[0];
  float *restrict a = s->arrays[1], *restrict b = s->arrays[2], *restrict c = s->arrays[3];
  (void)thread;
#pragma omp simd
  for (size_t i = (size_t)task * RUN; i < run_end(s, task); i++) {
    a[i] += from[i];
    b[i] += from[i];
    c[i] += from[i];
  }
}

static double memory_ms(train_task_t *run, train_pool_t *pool, streams_t *s) {
  double best = 0;
  for (int i = 0; i < MEMORY_TRIES; i++) {
    uint64_t start_ns = base_clock_now_ns();
    train_pool_run(pool, (int)((s->count + RUN - 1) / RUN), run, s);
    double ms = (double)(base_clock_now_ns() - start_ns) * 1e-6;
    best = i == 0 || ms < best ? ms : best;
  }
  return best;
}

static coll_status_t try_memory(const train_layout_t *layout, train_pool_t *pool, double *read_ms,
                                double *update_ms) {
  streams_t s = {.count = layout->parameter_count};
  void *memory;
  COLL_TRY(base_alloc(s.count * ADAMW_STREAMS + s.count / RUN + 1, sizeof(float), "the streams",
                      &memory));
  for (int i = 0; i < ADAMW_STREAMS; i++) s.arrays[i] = (float *)memory + (size_t)i * s.count;
  s.sums = s.arrays[0] + ADAMW_STREAMS * s.count;
  for (size_t i = 0; i < s.count * ADAMW_STREAMS; i++) s.arrays[0][i] = 1.0f;
  *read_ms = memory_ms(read_run, pool, &s);
  *update_ms = memory_ms(update_run, pool, &s);
  free(memory);
  return COLL_OK;
}

/* ---- the limit ---- */

static void print_memory(FILE *out, const char *name, double bytes, double ms) {
  fprintf(out, "%-22s %8.1f MB at %5.1f GB/s %19s %8.1f\n", name, bytes * 1e-6, bytes * 1e-6 / ms,
          "", ms);
}

static void print_limit(FILE *out, const limit_t *limit) {
  fprintf(out, "%-22s %5s %6s %7s %6s %9s %8s\n", "parts of a step, alone", "times", "rows",
          "columns", "depth", "GFLOP/s", "ms");
  for (int i = 0; i < PRODUCTS; i++) print_product(out, &limit->products[i], limit->product_ms[i]);
  print_memory(out, "gradient norm", limit->norm_bytes, limit->norm_ms);
  print_memory(out, "AdamW", limit->update_bytes, limit->update_ms);
  fprintf(out, "%-22s %50.1f\n", "total", total_ms(limit));
}

coll_status_t step_limit_measure(const train_layout_t *layout, int rows, train_pool_t *pool,
                                 train_precision_t precision, FILE *out, double *limit_ms) {
  limit_t limit;
  train_dtype_t dtype = train_precision_stored(precision, TRAIN_KIND_WEIGHTS);
  double read_ms, update_ms, floats = (double)layout->parameter_count * sizeof(float);
  list_products(&layout->config, rows, limit.products);
  for (int i = 0; i < PRODUCTS; i++) {
    COLL_TRY(try_product(&limit.products[i], pool, dtype, &limit.product_ms[i]));
  }
  COLL_TRY(try_memory(layout, pool, &read_ms, &update_ms));
  limit.norm_bytes =
      (double)layout->parameter_count *
      (double)train_dtype_bytes(train_precision_stored(precision, TRAIN_KIND_GRADIENTS));
  limit.norm_ms = read_ms * limit.norm_bytes / floats;
  limit.update_bytes = (double)layout->parameter_count * (double)train_update_bytes(precision);
  limit.update_ms = update_ms * limit.update_bytes / (UPDATE_PASSES * floats);
  *limit_ms = total_ms(&limit);
  if (out != NULL) print_limit(out, &limit);
  return COLL_OK;
}

coll_status_t step_product_rate(train_pool_t *pool, train_dtype_t dtype, double *flops) {
  static const product_t square = {"square", 1, SQUARE, SQUARE, SQUARE, false, true};
  double ms;
  COLL_TRY(try_product(&square, pool, dtype, &ms));
  *flops = 1e9 * gflops(&square, ms);
  return COLL_OK;
}
