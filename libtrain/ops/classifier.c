/*
 * The classifier and its loss, some rows at a time. Their logits, of all classes, are made in
 * blocks of classes, each leaving its rows' largest logits and sums of exponentials; from these
 * follow the losses, and then each block turns into its gradients and is multiplied on at once. The
 * input's gradient is a sum over all classes: it is collected in a fixed number of parts.
 */
#include <math.h>
#include <string.h>

#include "libtrain/ops/blas.h"
#include "libtrain/ops/gemm.h"
#include "libtrain/ops/host.h"
#include "libtrain/ops/vector.h"

#define ROWS 256              /* at a time */
#define CLASSES 512           /* in a block */
#define STRIDE (CLASSES + 16) /* between rows of a block, which a power of 2 would let collide */
#define PARTS 16              /* of the input's gradient, each of a run of blocks */

typedef struct classifier {
  const float *in, *table;
  const int32_t *targets;
  int rows, width, classes; /* `rows` at a time */
  int blocks, parts;
  float scale;
  bool fresh;
  float *logits;         /* [blocks, or without gradients threads; rows, STRIDE] */
  float *largest, *sums; /* [blocks, rows] */
  float *target_logits;  /* [rows] */
  float *most, *inverse; /* [rows]: the largest logit, and 1 / the sum relative to it */
  float *partial;        /* [parts, rows, width] */
  float *d_in, *d_table;
} classifier_t;

static int least(int a, int b) {
  return a < b ? a : b;
}

static int blocks_of(int classes) {
  return (classes + CLASSES - 1) / CLASSES;
}

size_t train_host_classifier_scratch(const train_ops_sizes_t *sizes) {
  size_t rows = (size_t)least(sizes->rows, ROWS);
  size_t blocks = (size_t)blocks_of(sizes->vocabulary), threads = (size_t)sizes->threads;
  size_t parts = (size_t)least((int)blocks, PARTS), width = (size_t)sizes->width;
  size_t sums = rows * (2 * blocks + 3);
  size_t for_loss = threads * rows * STRIDE,
         for_gradients = rows * (blocks * STRIDE + parts * width);
  return sums + (sizes->training && for_gradients > for_loss ? for_gradients : for_loss);
}

static void share_out_scratch(classifier_t *c, int rows, float *scratch) {
  size_t most = (size_t)least(rows, ROWS), blocks = (size_t)c->blocks;
  c->largest = scratch;
  c->sums = c->largest + blocks * most;
  c->target_logits = c->sums + blocks * most;
  c->most = c->target_logits + most;
  c->inverse = c->most + most;
  c->partial = c->inverse + most;
  c->logits =
      c->d_in != NULL ? c->partial + (size_t)c->parts * most * (size_t)c->width : c->partial;
}

/* Where the logits of a block are. */
static float *logits_of(const classifier_t *c, int block, int thread) {
  size_t place = (size_t)(c->d_in != NULL ? block : thread);
  return c->logits + place * (size_t)c->rows * STRIDE;
}

/* ---- loss ---- */

TRAIN_VECTORIZED
static void summarize(const float *logits, int count, float *largest, float *sum) {
  float most = train_largest(logits, count), added = 0;
#pragma omp simd reduction(+ : added)
  for (int i = 0; i < count; i++) added += train_exp(logits[i] - most);
  *largest = most;
  *sum = added;
}

/* The logits of a block of classes, and what they come to in each row. */
static void logits_task(void *context, int block, int thread) {
  const classifier_t *c = context;
  int first = block * CLASSES, count = least(CLASSES, c->classes - first);
  float *logits = logits_of(c, block, thread);
  train_gemm_here(&(train_gemm_t){.rows = c->rows,
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
    summarize(row_logits, count, &c->largest[at], &c->sums[at]);
    int target = c->targets[row] - first;
    if (target >= 0 && target < count) c->target_logits[row] = row_logits[target];
  }
}

/* The sum of the rows' losses; leaves most and inverse. */
static double losses(const classifier_t *c) {
  double total = 0;
  for (int row = 0; row < c->rows; row++) {
    float most = -INFINITY, sum = 0;
    const float *largest = c->largest + row, *sums = c->sums + row;
    for (int block = 0; block < c->blocks; block++) {
      float here = largest[(size_t)block * (size_t)c->rows];
      most = here > most ? here : most;
    }
    for (int block = 0; block < c->blocks; block++) {
      size_t at = (size_t)block * (size_t)c->rows;
      sum += sums[at] * expf(largest[at] - most);
    }
    c->most[row] = most;
    c->inverse[row] = 1.0f / sum;
    total += (double)most - (double)c->target_logits[row] + log((double)sum);
  }
  return total;
}

/* ---- gradients ---- */

TRAIN_VECTORIZED
static void differentiate(float *restrict logits, int count, float most, float scale) {
  for (int i = 0; i < count; i++) logits[i] = train_exp(logits[i] - most) * scale;
}

/* A block's logits become their gradients, which go to its rows of d_table and into a part of the
 * input's gradient. */
static void block_backward(const classifier_t *c, int block, bool first_of_part, float *partial) {
  int first = block * CLASSES, count = least(CLASSES, c->classes - first);
  float *d_logits = logits_of(c, block, 0);
  for (int row = 0; row < c->rows; row++) {
    float *d = d_logits + (size_t)row * STRIDE;
    differentiate(d, count, c->most[row], c->inverse[row] * c->scale);
    int target = c->targets[row] - first;
    if (target >= 0 && target < count) d[target] -= c->scale;
  }
  train_gemm_here(&(train_gemm_t){.rows = count,
                                  .columns = c->width,
                                  .depth = c->rows,
                                  .a = d_logits,
                                  .a_stride = STRIDE,
                                  .a_transposed = true,
                                  .b = c->in,
                                  .b_stride = c->width,
                                  .add = !c->fresh,
                                  .out = c->d_table + (size_t)first * (size_t)c->width,
                                  .out_stride = c->width});
  train_gemm_here(&(train_gemm_t){.rows = c->rows,
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
  for (int block = first; block < end; block++) block_backward(c, block, block == first, partial);
}

TRAIN_VECTORIZED
static void sum_parts(const float *partial, int parts, size_t apart, int count,
                      float *restrict out) {
  for (int i = 0; i < count; i++) out[i] = partial[i];
  for (int part = 1; part < parts; part++) {
    const float *more = partial + (size_t)part * apart;
    for (int i = 0; i < count; i++) out[i] += more[i];
  }
}

static void sum_task(void *context, int row, int thread) {
  const classifier_t *c = context;
  size_t at = (size_t)row * (size_t)c->width;
  (void)thread;
  sum_parts(c->partial + at, c->parts, (size_t)c->rows * (size_t)c->width, c->width, c->d_in + at);
}

double train_host_classifier(train_pool_t *pool, const float *in, const float *table,
                             const int32_t *targets, int rows, int width, int classes, float scale,
                             bool fresh, float *scratch, float *d_in, float *d_table) {
  classifier_t c = {.table = table,
                    .width = width,
                    .classes = classes,
                    .blocks = blocks_of(classes),
                    .parts = least(blocks_of(classes), PARTS),
                    .scale = scale,
                    .d_in = d_in,
                    .d_table = d_table};
  double total = 0;
  train_blas_prepare();
  share_out_scratch(&c, rows, scratch);
  for (int first = 0; first < rows; first += ROWS) {
    size_t at = (size_t)first * (size_t)width;
    c.rows = least(ROWS, rows - first);
    c.in = in + at;
    c.targets = targets + first;
    c.fresh = fresh && first == 0;
    train_pool_run(pool, c.blocks, logits_task, &c);
    total += losses(&c);
    if (d_in == NULL) continue;
    c.d_in = d_in + at;
    train_pool_run(pool, c.parts, part_task, &c);
    train_pool_run(pool, c.rows, sum_task, &c);
  }
  return total;
}
