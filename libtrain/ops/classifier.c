/*
 * The classifier and its loss, ROWS rows at a time. The logits are computed in blocks of classes.
 * Each block is replaced by exponentials relative to the block's maximum of each row; from these
 * maxima and the sums of exponentials the losses follow. Then each block is rescaled to gradients,
 * which are multiplied on while they are in the cache. The input's gradient is a sum over all
 * classes and is accumulated in a fixed number of partial sums.
 *
 * Where the classes are cut, the statistics of each row are first combined over the blocks of this
 * part, then over the parts; nothing else depends on the other parts.
 *
 * Sums are float32. With a narrow element type, gradients of logits are rounded as factors of
 * products only, in place: rows of both types start at the same addresses.
 */
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/host.h"

#define ROWS 512     /* processed at a time */
#define CLASSES 1024 /* per block, at most */
#define RUNS 16      /* of consecutive blocks; the input's gradient is summed for each */

/* The blocks of classes. */
typedef struct blocks {
  int size; /* classes of a block; the last may have fewer */
  int count;
  int stride; /* of rows of a block, in floats; not a power of 2: cache conflicts */
  int runs;
} blocks_t;

enum { STATISTICS = 3 }; /* of a row */

/* Statistics of rows over some classes, each [rows], consecutive in memory. */
typedef struct statistics {
  float *max, *sum; /* of logits; of exponentials relative to it */
  float *target;    /* the target's logit, or 0 */
} statistics_t;

typedef struct classifier {
  train_gemm_t *gemm;
  train_dtype_t dtype;
  const void *in, *table;
  const int32_t *targets;
  int rows, width; /* `rows` of the current batch of rows */
  train_vocabulary_t classes;
  const train_parts_t *parts; /* NULL: one */
  blocks_t blocks;
  float scale;
  bool overwrite;
  float *exponentials;           /* [blocks, or threads without gradients; rows, stride] */
  float *block_max, *block_sums; /* [blocks, rows] */
  float *own, *gathered;         /* [STATISTICS, rows], [parts, STATISTICS, rows] */
  float *partial;                /* [runs, rows, width] */
  void *d_in;
  float *d_table;
} classifier_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

/* Every run has the same number of blocks if there are more blocks than runs. */
static blocks_t blocks_of(int classes) {
  if (classes == 0) return (blocks_t){0};
  int count = divide_up(classes, CLASSES);
  if (count > RUNS) count = divide_up(count, RUNS) * RUNS;
  blocks_t blocks = {.size = divide_up(divide_up(classes, count), 16) * 16};
  blocks.count = divide_up(classes, blocks.size);
  blocks.stride = blocks.size + 16;
  blocks.runs = min_int(blocks.count, RUNS);
  return blocks;
}

size_t train_host_classifier_scratch(const train_ops_sizes_t *sizes) {
  const blocks_t blocks = blocks_of(sizes->vocabulary);
  size_t rows = (size_t)min_int(sizes->rows, ROWS), width = (size_t)sizes->width;
  size_t count = (size_t)blocks.count, stride = (size_t)blocks.stride;
  size_t for_loss = (size_t)sizes->threads * rows * stride;
  size_t for_gradients = rows * (count * stride + (size_t)blocks.runs * width);
  return rows * (2 * count + STATISTICS * (1 + (size_t)sizes->vocabulary_parts)) +
         (sizes->training && for_gradients > for_loss ? for_gradients : for_loss);
}

static void divide_scratch(classifier_t *c, int rows, float *scratch) {
  size_t max_rows = (size_t)min_int(rows, ROWS), blocks = (size_t)c->blocks.count;
  size_t parts = c->parts != NULL ? (size_t)c->parts->count : 0;
  size_t partial = c->d_in != NULL ? (size_t)c->blocks.runs * max_rows * (size_t)c->width : 0;
  c->block_max = scratch;
  c->block_sums = c->block_max + blocks * max_rows;
  c->own = c->block_sums + blocks * max_rows;
  c->gathered = c->own + STATISTICS * max_rows;
  c->partial = c->gathered + parts * STATISTICS * max_rows;
  c->exponentials = c->partial + partial;
}

/* The classes of a block, with what belongs to it. */
typedef struct block {
  int index, first, count; /* `first` in the table */
  const void *table;       /* [count, width] */
  float *exponentials;     /* [rows, stride] */
} block_t;

static block_t block_of(const classifier_t *c, int index, int thread) {
  int first = index * c->blocks.size;
  size_t slot = (size_t)(c->d_in != NULL ? index : thread);
  return (block_t){
      .index = index,
      .first = first,
      .count = min_int(c->blocks.size, c->classes.count - first),
      .table = train_dtype_const_at(c->dtype, c->table, (size_t)first * (size_t)c->width),
      .exponentials = c->exponentials + slot * (size_t)c->rows * (size_t)c->blocks.stride};
}

static float *row_of(const classifier_t *c, const block_t *block, int row) {
  return block->exponentials + (size_t)row * (size_t)c->blocks.stride;
}

/* The index of a row's target in a block, which may be outside. */
static int target_of(const classifier_t *c, const block_t *block, int row) {
  return c->targets[row] - c->classes.first - block->first;
}

static statistics_t statistics_at(const classifier_t *c, float *values) {
  return (statistics_t){values, values + c->rows, values + 2 * c->rows};
}

/* ---- loss ---- */

/* Replaces logits by exponentials relative to their maximum. */
TRAIN_VECTORIZED
static void to_exponentials(float *restrict logits, int count, float *max_logit, float *sum) {
  float max = train_max(logits, count), added = 0;
#pragma omp simd reduction(+ : added)
  for (int i = 0; i < count; i++) {
    logits[i] = train_exp(logits[i] - max);
    added += logits[i];
  }
  *max_logit = max;
  *sum = added;
}

static void logits_task(void *context, int index, int thread) {
  const classifier_t *c = context;
  const block_t block = block_of(c, index, thread);
  float *targets = statistics_at(c, c->own).target;
  train_gemm_run_serial(c->gemm, thread,
                        &(train_product_t){.rows = c->rows,
                                           .columns = block.count,
                                           .depth = c->width,
                                           .dtype = c->dtype,
                                           .a = c->in,
                                           .a_stride = c->width,
                                           .b = block.table,
                                           .b_stride = c->width,
                                           .b_transposed = true,
                                           .out = block.exponentials,
                                           .out_stride = c->blocks.stride});
  for (int row = 0; row < c->rows; row++) {
    float *logits = row_of(c, &block, row);
    size_t at = (size_t)index * (size_t)c->rows + (size_t)row;
    int target = target_of(c, &block, row);
    if (target >= 0 && target < block.count) targets[row] = logits[target];
    to_exponentials(logits, block.count, &c->block_max[at], &c->block_sums[at]);
  }
}

/* Combines maxima and sums of `count` groups of classes; those of a row are `stride` apart. */
static void combine(const float *max, const float *sums, int count, size_t stride, float *row_max,
                    float *row_sum) {
  float largest = -INFINITY, sum = 0;
  for (int i = 0; i < count; i++) {
    float here = max[(size_t)i * stride];
    largest = here > largest ? here : largest;
  }
  for (int i = 0; i < count; i++) {
    size_t at = (size_t)i * stride;
    sum += sums[at] * expf(max[at] - largest);
  }
  *row_max = largest;
  *row_sum = sum;
}

/* Over the classes of this part. */
static void combine_blocks(const classifier_t *c) {
  const statistics_t own = statistics_at(c, c->own);
  for (int row = 0; row < c->rows; row++) {
    combine(c->block_max + row, c->block_sums + row, c->blocks.count, (size_t)c->rows,
            &own.max[row], &own.sum[row]);
  }
}

/* Over all classes, in the same order in every part. */
static void combine_parts(const classifier_t *c) {
  const statistics_t own = statistics_at(c, c->own), all = statistics_at(c, c->gathered);
  size_t stride = STATISTICS * (size_t)c->rows;
  c->parts->allgather(c->parts->context, c->own, c->gathered, stride);
  for (int row = 0; row < c->rows; row++) {
    combine(all.max + row, all.sum + row, c->parts->count, stride, &own.max[row], &own.sum[row]);
    own.target[row] = 0;
    for (int part = 0; part < c->parts->count; part++) {
      own.target[row] += all.target[(size_t)part * stride + (size_t)row];
    }
  }
}

/* The sum of the rows' losses. */
static double losses(const classifier_t *c) {
  const statistics_t all = statistics_at(c, c->own);
  double total = 0;
  for (int row = 0; row < c->rows; row++) {
    total += (double)all.max[row] - (double)all.target[row] + log((double)all.sum[row]);
  }
  return total;
}

static double forward(classifier_t *c, train_pool_t *pool) {
  memset(statistics_at(c, c->own).target, 0, (size_t)c->rows * sizeof(float));
  train_pool_run(pool, c->blocks.count, logits_task, c);
  combine_blocks(c);
  if (c->parts != NULL) combine_parts(c);
  return losses(c);
}

/* ---- gradients ---- */

TRAIN_VECTORIZED
static void scale_row(float *restrict row, int count, float by) {
  for (int i = 0; i < count; i++) row[i] *= by;
}

/* Replaces a block's exponentials by the gradients of its logits, in the element type. */
static void to_gradients(const classifier_t *c, const block_t *block) {
  const statistics_t all = statistics_at(c, c->own);
  for (int row = 0; row < c->rows; row++) {
    float *d = row_of(c, block, row);
    float block_max = c->block_max[(size_t)block->index * (size_t)c->rows + (size_t)row];
    float to_row_max = expf(block_max - all.max[row]);
    scale_row(d, block->count, to_row_max * (1.0f / all.sum[row]) * c->scale);
    int target = target_of(c, block, row);
    if (target >= 0 && target < block->count) d[target] -= c->scale;
    if (c->dtype != TRAIN_FLOAT32) train_dtype_narrow(c->dtype, d, (size_t)block->count, d);
  }
}

/* Adds a block's products to d_table and to a run's sum of the input's gradient. */
static void block_backward(const classifier_t *c, const block_t *block, int thread,
                           bool first_of_run, float *partial) {
  int per_float = (int)(sizeof(float) / train_dtype_bytes(c->dtype));
  const train_product_t to_table = {.rows = block->count,
                                    .columns = c->width,
                                    .depth = c->rows,
                                    .dtype = c->dtype,
                                    .a = block->exponentials,
                                    .a_stride = c->blocks.stride * per_float,
                                    .a_transposed = true,
                                    .b = c->in,
                                    .b_stride = c->width,
                                    .add = !c->overwrite,
                                    .out = c->d_table + (size_t)block->first * (size_t)c->width,
                                    .out_stride = c->width};
  const train_product_t to_in = {.rows = c->rows,
                                 .columns = c->width,
                                 .depth = block->count,
                                 .dtype = c->dtype,
                                 .a = block->exponentials,
                                 .a_stride = c->blocks.stride * per_float,
                                 .b = block->table,
                                 .b_stride = c->width,
                                 .add = !first_of_run,
                                 .out = partial,
                                 .out_stride = c->width};
  to_gradients(c, block);
  train_gemm_run_serial(c->gemm, thread, &to_table);
  train_gemm_run_serial(c->gemm, thread, &to_in);
}

static void run_task(void *context, int run, int thread) {
  const classifier_t *c = context;
  float *partial = c->partial + (size_t)run * (size_t)c->rows * (size_t)c->width;
  int count = c->blocks.count, runs = c->blocks.runs;
  int first = count * run / runs, end = count * (run + 1) / runs;
  for (int index = first; index < end; index++) {
    const block_t block = block_of(c, index, thread);
    block_backward(c, &block, thread, index == first, partial);
  }
}

TRAIN_VECTORIZED
static void add_row(const float *more, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] += more[i];
}

static void sum_task(void *context, int row, int thread) {
  const classifier_t *c = context;
  size_t width = (size_t)c->width, at = (size_t)row * width, stride = (size_t)c->rows * width;
  float *sum = c->partial + at;
  (void)thread;
  for (int run = 1; run < c->blocks.runs; run++) {
    add_row(sum + (size_t)run * stride, c->width, sum);
  }
  train_dtype_narrow(c->dtype, sum, width, train_dtype_at(c->dtype, c->d_in, at));
}

static void backward(classifier_t *c, train_pool_t *pool) {
  if (c->blocks.count == 0) { /* no classes, no gradient */
    memset(c->d_in, 0, (size_t)c->rows * (size_t)c->width * train_dtype_bytes(c->dtype));
    return;
  }
  train_pool_run(pool, c->blocks.runs, run_task, c);
  train_pool_run(pool, c->rows, sum_task, c);
}

double train_host_classifier(const train_exec_t *exec, const void *in, const void *table,
                             const int32_t *targets, int rows, int width,
                             train_vocabulary_t classes, const train_parts_t *parts, float scale,
                             bool overwrite, void *d_in, float *d_table) {
  classifier_t c = {.gemm = exec->gemm,
                    .dtype = exec->dtype,
                    .table = table,
                    .width = width,
                    .classes = classes,
                    .parts = parts,
                    .blocks = blocks_of(classes.count),
                    .scale = scale,
                    .d_in = d_in,
                    .d_table = d_table};
  double total = 0;
  divide_scratch(&c, rows, exec->scratch);
  for (int first = 0; first < rows; first += ROWS) {
    size_t at = (size_t)first * (size_t)width;
    c.rows = min_int(ROWS, rows - first);
    c.in = train_dtype_const_at(c.dtype, in, at);
    c.targets = targets + first;
    c.overwrite = overwrite && first == 0;
    total += forward(&c, exec->pool);
    if (d_in == NULL) continue;
    c.d_in = train_dtype_at(c.dtype, d_in, at);
    backward(&c, exec->pool);
  }
  return total;
}
