/*
 * The classifier and its loss, ROWS rows at a time. The logits are computed in blocks of classes.
 * Each block yields the maximum logit and the sum of exponentials of every row, from which the
 * losses follow. Then each block is converted to gradients, which are multiplied on immediately.
 * The input's gradient is a sum over all classes and is accumulated in a fixed number of parts.
 */
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/blas.h"
#include "libtrain/ops/gemm.h"
#include "libtrain/ops/host.h"

#define ROWS 256              /* processed at a time */
#define CLASSES 512           /* per block */
#define STRIDE (CLASSES + 16) /* row stride of a block; not a power of 2: cache conflicts */
#define PARTS 16              /* of the input's gradient, each for several consecutive blocks */

typedef struct classifier {
  train_gemm_t *gemm;
  const float *in, *table;
  const int32_t *targets;
  int rows, width, classes; /* `rows` of the current batch of rows */
  int blocks, parts;
  float scale;
  bool overwrite;
  float *logits;                 /* [blocks, or threads without gradients; rows, STRIDE] */
  float *block_max, *block_sums; /* [blocks, rows] */
  float *target_logits;          /* [rows] */
  float *row_max, *inverse_sum;  /* [rows]: maximum logit; 1 / sum of exponentials relative to it */
  float *partial;                /* [parts, rows, width] */
  float *d_in, *d_table;
} classifier_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static int blocks_of(int classes) {
  return (classes + CLASSES - 1) / CLASSES;
}

size_t train_host_classifier_scratch(const train_ops_sizes_t *sizes) {
  size_t rows = (size_t)min_int(sizes->rows, ROWS);
  size_t blocks = (size_t)blocks_of(sizes->vocabulary), threads = (size_t)sizes->threads;
  size_t parts = (size_t)min_int((int)blocks, PARTS), width = (size_t)sizes->width;
  size_t block_sums = rows * (2 * blocks + 3);
  size_t for_loss = threads * rows * STRIDE,
         for_gradients = rows * (blocks * STRIDE + parts * width);
  return block_sums + (sizes->training && for_gradients > for_loss ? for_gradients : for_loss);
}

static void divide_scratch(classifier_t *c, int rows, float *scratch) {
  size_t max_rows = (size_t)min_int(rows, ROWS), blocks = (size_t)c->blocks;
  c->block_max = scratch;
  c->block_sums = c->block_max + blocks * max_rows;
  c->target_logits = c->block_sums + blocks * max_rows;
  c->row_max = c->target_logits + max_rows;
  c->inverse_sum = c->row_max + max_rows;
  c->partial = c->inverse_sum + max_rows;
  c->logits =
      c->d_in != NULL ? c->partial + (size_t)c->parts * max_rows * (size_t)c->width : c->partial;
}

/* The logits of a block. */
static float *logits_of(const classifier_t *c, int block, int thread) {
  size_t slot = (size_t)(c->d_in != NULL ? block : thread);
  return c->logits + slot * (size_t)c->rows * STRIDE;
}

/* ---- loss ---- */

TRAIN_VECTORIZED
static void max_and_exp_sum(const float *logits, int count, float *max_logit, float *sum) {
  float max = train_max(logits, count), added = 0;
#pragma omp simd reduction(+ : added)
  for (int i = 0; i < count; i++) added += train_exp(logits[i] - max);
  *max_logit = max;
  *sum = added;
}

/* Computes the logits of a block of classes, and the maximum and sum of each row. */
static void logits_task(void *context, int block, int thread) {
  const classifier_t *c = context;
  int first = block * CLASSES, count = min_int(CLASSES, c->classes - first);
  float *logits = logits_of(c, block, thread);
  train_gemm_run_serial(c->gemm, thread,
                        &(train_product_t){.rows = c->rows,
                                           .columns = count,
                                           .depth = c->width,
                                           .a = c->in,
                                           .a_stride = c->width,
                                           .b = c->table + (size_t)first * (size_t)c->width,
                                           .b_stride = c->width,
                                           .b_transposed = true,
                                           .out = logits,
                                           .out_stride = STRIDE});
  for (int row = 0; row < c->rows; row++) {
    const float *row_logits = logits + (size_t)row * STRIDE;
    size_t at = (size_t)block * (size_t)c->rows + (size_t)row;
    max_and_exp_sum(row_logits, count, &c->block_max[at], &c->block_sums[at]);
    int target = c->targets[row] - first;
    if (target >= 0 && target < count) c->target_logits[row] = row_logits[target];
  }
}

/* The sum of the rows' losses; also sets row_max and inverse_sum. */
static double losses(const classifier_t *c) {
  double total = 0;
  for (int row = 0; row < c->rows; row++) {
    float row_max = -INFINITY, sum = 0;
    const float *block_max = c->block_max + row, *block_sums = c->block_sums + row;
    for (int block = 0; block < c->blocks; block++) {
      float here = block_max[(size_t)block * (size_t)c->rows];
      row_max = here > row_max ? here : row_max;
    }
    for (int block = 0; block < c->blocks; block++) {
      size_t at = (size_t)block * (size_t)c->rows;
      sum += block_sums[at] * expf(block_max[at] - row_max);
    }
    c->row_max[row] = row_max;
    c->inverse_sum[row] = 1.0f / sum;
    total += (double)row_max - (double)c->target_logits[row] + log((double)sum);
  }
  return total;
}

/* ---- gradients ---- */

TRAIN_VECTORIZED
static void logits_to_gradients(float *restrict logits, int count, float row_max, float scale) {
  for (int i = 0; i < count; i++) logits[i] = train_exp(logits[i] - row_max) * scale;
}

/* Converts a block's logits to gradients, and adds their products to d_table and to a part of the
 * input's gradient. */
static void block_backward(const classifier_t *c, int block, int thread, bool first_of_part,
                           float *partial) {
  int first = block * CLASSES, count = min_int(CLASSES, c->classes - first);
  float *d_logits = logits_of(c, block, 0);
  for (int row = 0; row < c->rows; row++) {
    float *d = d_logits + (size_t)row * STRIDE;
    logits_to_gradients(d, count, c->row_max[row], c->inverse_sum[row] * c->scale);
    int target = c->targets[row] - first;
    if (target >= 0 && target < count) d[target] -= c->scale;
  }
  train_gemm_run_serial(c->gemm, thread,
                        &(train_product_t){.rows = count,
                                           .columns = c->width,
                                           .depth = c->rows,
                                           .a = d_logits,
                                           .a_stride = STRIDE,
                                           .a_transposed = true,
                                           .b = c->in,
                                           .b_stride = c->width,
                                           .add = !c->overwrite,
                                           .out = c->d_table + (size_t)first * (size_t)c->width,
                                           .out_stride = c->width});
  train_gemm_run_serial(c->gemm, thread,
                        &(train_product_t){.rows = c->rows,
                                           .columns = c->width,
                                           .depth = count,
                                           .a = d_logits,
                                           .a_stride = STRIDE,
                                           .b = c->table + (size_t)first * (size_t)c->width,
                                           .b_stride = c->width,
                                           .add = !first_of_part,
                                           .out = partial,
                                           .out_stride = c->width});
}

static void part_task(void *context, int part, int thread) {
  const classifier_t *c = context;
  float *partial = c->partial + (size_t)part * (size_t)c->rows * (size_t)c->width;
  int first = c->blocks * part / c->parts, end = c->blocks * (part + 1) / c->parts;
  (void)thread;
  for (int block = first; block < end; block++)
    block_backward(c, block, thread, block == first, partial);
}

TRAIN_VECTORIZED
static void sum_parts(const float *partial, int parts, size_t stride, int count,
                      float *restrict out) {
  for (int i = 0; i < count; i++) out[i] = partial[i];
  for (int part = 1; part < parts; part++) {
    const float *more = partial + (size_t)part * stride;
    for (int i = 0; i < count; i++) out[i] += more[i];
  }
}

static void sum_task(void *context, int row, int thread) {
  const classifier_t *c = context;
  size_t at = (size_t)row * (size_t)c->width;
  (void)thread;
  sum_parts(c->partial + at, c->parts, (size_t)c->rows * (size_t)c->width, c->width, c->d_in + at);
}

double train_host_classifier(const train_exec_t *exec, const void *in, const void *table,
                             const int32_t *targets, int rows, int width, int classes, float scale,
                             bool overwrite, void *d_in, float *d_table) {
  classifier_t c = {.gemm = exec->gemm,
                    .table = table,
                    .width = width,
                    .classes = classes,
                    .blocks = blocks_of(classes),
                    .parts = min_int(blocks_of(classes), PARTS),
                    .scale = scale,
                    .d_in = d_in,
                    .d_table = d_table};
  double total = 0;
  train_blas_prepare();
  divide_scratch(&c, rows, exec->scratch);
  for (int first = 0; first < rows; first += ROWS) {
    size_t at = (size_t)first * (size_t)width;
    c.rows = min_int(ROWS, rows - first);
    c.in = (const float *)in + at;
    c.targets = targets + first;
    c.overwrite = overwrite && first == 0;
    train_pool_run(exec->pool, c.blocks, logits_task, &c);
    total += losses(&c);
    if (d_in == NULL) continue;
    c.d_in = (float *)d_in + at;
    train_pool_run(exec->pool, c.parts, part_task, &c);
    train_pool_run(exec->pool, c.rows, sum_task, &c);
  }
  return total;
}
