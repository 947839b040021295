/*
 * The linear layers of experts: the tiles of the products of up to GROUP experts are one list of
 * tasks, so that threads finish together whatever the counts of rows. Experts' rows include the
 * unused slots behind them, which are zero in factors of gradients of weights.
 *
 * Counts of rows change from pass to pass, and each size of a product needs a kernel. To keep
 * these few, gradients of weights are sums over at most DEPTH rows at a time, and starts of experts
 * should be aligned (experts.h). As in linear.c, epilogues add bias and GELU and round, and the
 * first tile in each row of tiles of a weight's gradient computes the gradient of the bias.
 */
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/experts.h"
#include "libtrain/ops/gelu.h"

#define GROUP (TRAIN_PRODUCTS_MAX / 2)
#define DEPTH 512
#define BLOCK 512 /* columns converted at a time */

/* Arguments of a call. */
typedef struct call {
  train_gemm_t *gemm;
  train_dtype_t dtype;
  const train_linear_t *linear;
  const train_expert_rows_t *rows;
  const void *in, *weight, *bias;
  void *out, *active;
  const void *d_out, *hidden;
  bool overwrite;
  void *d_in;
  float *d_weight, *d_bias;
} call_t;

/* Context of an epilogue: some rows of an expert. */
typedef struct part {
  const call_t *call;
  int expert, first, rows;
  bool overwrite;
} part_t;

/* The products of a run. */
typedef struct run {
  train_product_t products[TRAIN_PRODUCTS_MAX];
  part_t parts[TRAIN_PRODUCTS_MAX];
  int count;
} run_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

/* Rows of an expert with the unused slots. */
static int slots_of(const call_t *c, int expert) {
  return c->rows->starts[expert + 1] - c->rows->starts[expert];
}

static const void *row_of(const call_t *c, const void *array, int row, int width) {
  return train_dtype_const_at(c->dtype, array, (size_t)row * (size_t)width);
}

static size_t weight_at(const call_t *c, int expert) {
  return (size_t)expert * (size_t)c->linear->out_width * (size_t)c->linear->in_width;
}

/* The index in an array of slots of an element of a tile. */
static size_t index_of(const part_t *part, const train_tile_t *tile, int width, int row,
                       int column) {
  return (size_t)(part->first + tile->row + row) * (size_t)width + (size_t)(tile->column + column);
}

static void add_product(run_t *run, const part_t *part, const train_product_t *product) {
  run->parts[run->count] = *part;
  run->products[run->count] = *product;
  run->products[run->count].context = &run->parts[run->count];
  run->count++;
}

static void store(train_dtype_t dtype, const float *values, int count, void *array, size_t index) {
  if (dtype == TRAIN_FLOAT32) return;
  train_dtype_narrow(dtype, values, (size_t)count, train_dtype_at(dtype, array, index));
}

/* ---- forward ---- */

TRAIN_VECTORIZED
static void add_row(const float *row, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] += row[i];
}

TRAIN_VECTORIZED
static void gelu(const float *in, int count, float *restrict active) {
  for (int i = 0; i < count; i++) active[i] = train_gelu(in[i]);
}

/* `count` values of a row of a tile. */
static void finish_forward(const call_t *c, const float *bias, float *values, int count,
                           size_t index) {
  float buffer[BLOCK];
  if (bias != NULL) add_row(bias, count, values);
  if (c->active != NULL) {
    float *active = c->dtype == TRAIN_FLOAT32 ? (float *)c->active + index : buffer;
    gelu(values, count, active);
    store(c->dtype, active, count, c->active, index);
  }
  store(c->dtype, values, count, c->out, index);
}

static void forward_epilogue(const void *context, const train_tile_t *tile) {
  const part_t *part = context;
  const call_t *c = part->call;
  float buffer[BLOCK];
  const float *bias = NULL;
  int width = c->linear->out_width;
  for (int column = 0; column < tile->columns; column += BLOCK) {
    int count = min_int(BLOCK, tile->columns - column);
    size_t bias_at = (size_t)part->expert * (size_t)width + (size_t)(tile->column + column);
    if (c->bias != NULL) {
      bias = train_dtype_read(c->dtype, c->bias, bias_at, (size_t)count, buffer);
    }
    for (int row = 0; row < tile->rows; row++) {
      finish_forward(c, bias, tile->values + (size_t)row * (size_t)tile->stride + column, count,
                     index_of(part, tile, width, row, column));
    }
  }
}

static void add_forward(const call_t *c, int expert, run_t *run) {
  const train_linear_t *linear = c->linear;
  const part_t part = {
      .call = c, .expert = expert, .first = c->rows->starts[expert], .rows = slots_of(c, expert)};
  float *out = c->dtype == TRAIN_FLOAT32
                   ? (float *)c->out + (size_t)part.first * (size_t)linear->out_width
                   : NULL;
  const train_product_t product = {
      .rows = part.rows,
      .columns = linear->out_width,
      .depth = linear->in_width,
      .dtype = c->dtype,
      .a = row_of(c, c->in, part.first, linear->in_width),
      .a_stride = linear->in_width,
      .b = train_dtype_const_at(c->dtype, c->weight, weight_at(c, expert)),
      .b_stride = linear->in_width,
      .b_transposed = true,
      .out = out,
      .out_stride = linear->out_width,
      .epilogue = forward_epilogue};
  if (part.rows > 0) add_product(run, &part, &product);
}

void train_experts_linear_forward(const train_exec_t *exec, const train_linear_t *linear,
                                  const train_expert_rows_t *rows, const void *in,
                                  const void *weight, const void *bias, void *out, void *active) {
  const call_t c = {.gemm = exec->gemm,
                    .dtype = exec->dtype,
                    .linear = linear,
                    .rows = rows,
                    .in = in,
                    .weight = weight,
                    .bias = bias,
                    .out = out,
                    .active = active};
  run_t run;
  for (int first = 0; first < rows->experts; first += TRAIN_PRODUCTS_MAX) {
    int end = min_int(first + TRAIN_PRODUCTS_MAX, rows->experts);
    run.count = 0;
    for (int expert = first; expert < end; expert++) add_forward(&c, expert, &run);
    train_gemm_run(exec->gemm, run.products, run.count);
  }
}

/* ---- backward ---- */

TRAIN_VECTORIZED
static void gelu_backward(const float *in, int count, float *restrict d) {
  for (int i = 0; i < count; i++) d[i] *= train_gelu_slope(in[i]);
}

static void d_in_epilogue(const void *context, const train_tile_t *tile) {
  const part_t *part = context;
  const call_t *c = part->call;
  float buffer[BLOCK];
  for (int row = 0; row < tile->rows; row++) {
    for (int column = 0; column < tile->columns; column += BLOCK) {
      int count = min_int(BLOCK, tile->columns - column);
      size_t at = index_of(part, tile, c->linear->in_width, row, column);
      float *values = tile->values + (size_t)row * (size_t)tile->stride + column;
      if (c->hidden != NULL) {
        gelu_backward(train_dtype_read(c->dtype, c->hidden, at, (size_t)count, buffer), count,
                      values);
      }
      store(c->dtype, values, count, c->d_in, at);
    }
  }
}

static void add_d_in(const call_t *c, int expert, run_t *run) {
  const train_linear_t *linear = c->linear;
  const part_t part = {
      .call = c, .expert = expert, .first = c->rows->starts[expert], .rows = slots_of(c, expert)};
  float *d_in = c->dtype == TRAIN_FLOAT32
                    ? (float *)c->d_in + (size_t)part.first * (size_t)linear->in_width
                    : NULL;
  const train_product_t product = {
      .rows = part.rows,
      .columns = linear->in_width,
      .depth = linear->out_width,
      .dtype = c->dtype,
      .a = row_of(c, c->d_out, part.first, linear->out_width),
      .a_stride = linear->out_width,
      .b = train_dtype_const_at(c->dtype, c->weight, weight_at(c, expert)),
      .b_stride = linear->in_width,
      .out = d_in,
      .out_stride = linear->in_width,
      .epilogue = d_in_epilogue};
  if (part.rows > 0) add_product(run, &part, &product);
}

/* Adds sums of `count` columns of d_out over the part's rows. */
static void add_columns(const part_t *part, int column, int count, float *sum) {
  const call_t *c = part->call;
  float buffer[BLOCK];
  for (int row = part->first; row < part->first + part->rows; row++) {
    size_t index = (size_t)row * (size_t)c->linear->out_width + (size_t)column;
    add_row(train_dtype_read(c->dtype, c->d_out, index, (size_t)count, buffer), count, sum);
  }
}

/* The rows of a tile are output features. */
static void d_weight_epilogue(const void *context, const train_tile_t *tile) {
  const part_t *part = context;
  const call_t *c = part->call;
  if (tile->column > 0) return;
  float *d_bias =
      c->d_bias + (size_t)part->expert * (size_t)c->linear->out_width + (size_t)tile->row;
  if (part->overwrite) memset(d_bias, 0, (size_t)tile->rows * sizeof *d_bias);
  for (int at = 0; at < tile->rows; at += BLOCK) {
    add_columns(part, tile->row + at, min_int(BLOCK, tile->rows - at), d_bias + at);
  }
}

/* The part of the gradient of an expert's weight by rows from `from` on, if it has that many. */
static void add_d_weight(const call_t *c, int expert, int from, run_t *run) {
  const train_linear_t *linear = c->linear;
  int rows = min_int(DEPTH, slots_of(c, expert) - from);
  const part_t part = {.call = c,
                       .expert = expert,
                       .first = c->rows->starts[expert] + from,
                       .rows = rows,
                       .overwrite = c->overwrite && from == 0};
  const train_product_t product = {.rows = linear->out_width,
                                   .columns = linear->in_width,
                                   .depth = rows,
                                   .dtype = c->dtype,
                                   .a = row_of(c, c->d_out, part.first, linear->out_width),
                                   .a_stride = linear->out_width,
                                   .a_transposed = true,
                                   .b = row_of(c, c->in, part.first, linear->in_width),
                                   .b_stride = linear->in_width,
                                   .add = !part.overwrite,
                                   .out = c->d_weight + weight_at(c, expert),
                                   .out_stride = linear->in_width,
                                   .epilogue = d_weight_epilogue};
  if (rows > 0) add_product(run, &part, &product);
}

/* Experts without rows. */
static void clear_task(void *context, int expert, int thread) {
  const call_t *c = context;
  size_t outs = (size_t)c->linear->out_width, weights = outs * (size_t)c->linear->in_width;
  (void)thread;
  if (slots_of(c, expert) > 0) return;
  memset(c->d_weight + weight_at(c, expert), 0, weights * sizeof *c->d_weight);
  memset(c->d_bias + (size_t)expert * outs, 0, outs * sizeof *c->d_bias);
}

static void group_backward(const call_t *c, int first, int end) {
  run_t run = {.count = 0};
  for (int from = 0; from == 0 || run.count > 0; from += DEPTH) {
    run.count = 0;
    for (int expert = first; expert < end && c->d_weight != NULL; expert++) {
      add_d_weight(c, expert, from, &run);
    }
    for (int expert = first; expert < end && from == 0 && c->d_in != NULL; expert++) {
      add_d_in(c, expert, &run);
    }
    train_gemm_run(c->gemm, run.products, run.count);
  }
}

void train_experts_linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                                   const train_expert_rows_t *rows, const void *d_out,
                                   const void *in, const void *weight, const void *hidden,
                                   bool overwrite, void *d_in, float *d_weight, float *d_bias) {
  call_t c = {.gemm = exec->gemm,
              .dtype = exec->dtype,
              .linear = linear,
              .rows = rows,
              .in = in,
              .weight = weight,
              .d_out = d_out,
              .hidden = hidden,
              .overwrite = overwrite,
              .d_in = d_in,
              .d_weight = d_weight,
              .d_bias = d_bias};
  for (int first = 0; first < rows->experts; first += GROUP) {
    group_backward(&c, first, min_int(first + GROUP, rows->experts));
  }
  if (d_weight != NULL && overwrite) train_pool_run(exec->pool, rows->experts, clear_task, &c);
}
