/*
 * The element-wise part of a linear layer whose matrix product is a sum over several parts of the
 * input features: bias and residual are added after the parts have been summed. Backward is divided
 * by columns and adds rows in their order, as the fused operator of linear.c does, and so gives the
 * same bits.
 */
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/host.h"

#define ROWS_PER_TASK 16
#define COLUMNS_PER_TASK 64
#define BLOCK 512 /* elements converted at a time */

typedef struct bias_residual {
  train_dtype_t dtype;
  int rows, width;
  const void *in, *bias, *residual;
  void *out;
  const void *d_out;
  bool overwrite;
  float *d_bias;
} bias_residual_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

static int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

/* `out` may be one of the others. */
TRAIN_VECTORIZED
static void add_both(const float *in, const float *bias, const float *residual, int count,
                     float *out) {
#pragma omp simd
  for (int i = 0; i < count; i++) out[i] = in[i] + (bias[i] + residual[i]);
}

TRAIN_VECTORIZED
static void add_one(const float *in, const float *more, int count, float *out) {
#pragma omp simd
  for (int i = 0; i < count; i++) out[i] = in[i] + more[i];
}

/* `count` elements of a row, from a column on. */
static void add_block(const bias_residual_t *b, int row, int column, int count) {
  float in_buffer[BLOCK], bias_buffer[BLOCK], residual_buffer[BLOCK], sum[BLOCK];
  size_t elements = (size_t)count, at = (size_t)row * (size_t)b->width + (size_t)column;
  const float *in = train_dtype_read(b->dtype, b->in, at, elements, in_buffer);
  const float *bias = NULL, *residual = NULL;
  float *out = b->dtype == TRAIN_FLOAT32 ? (float *)b->out + at : sum;
  if (b->bias != NULL) {
    bias = train_dtype_read(b->dtype, b->bias, (size_t)column, elements, bias_buffer);
  }
  if (b->residual != NULL) {
    residual = train_dtype_read(b->dtype, b->residual, at, elements, residual_buffer);
  }
  if (bias != NULL && residual != NULL) {
    add_both(in, bias, residual, count, out);
  } else if (bias != NULL || residual != NULL) {
    add_one(in, bias != NULL ? bias : residual, count, out);
  } else if (out != in) {
    memcpy(out, in, elements * sizeof *out);
  }
  if (out == sum) {
    train_dtype_narrow(b->dtype, sum, elements, train_dtype_at(b->dtype, b->out, at));
  }
}

static void forward_task(void *context, int task, int thread) {
  const bias_residual_t *b = context;
  int from = task * ROWS_PER_TASK, to = min_int(from + ROWS_PER_TASK, b->rows);
  (void)thread;
  for (int row = from; row < to; row++) {
    for (int column = 0; column < b->width; column += BLOCK) {
      add_block(b, row, column, min_int(BLOCK, b->width - column));
    }
  }
}

void train_host_bias_residual(const train_exec_t *exec, const void *in, const void *bias,
                              const void *residual, int rows, int width, void *out) {
  bias_residual_t b = {.dtype = exec->dtype,
                       .rows = rows,
                       .width = width,
                       .in = in,
                       .bias = bias,
                       .residual = residual,
                       .out = out};
  train_pool_run(exec->pool, divide_up(rows, ROWS_PER_TASK), forward_task, &b);
}

TRAIN_VECTORIZED
static void add_row(const float *row, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] += row[i];
}

static void backward_task(void *context, int task, int thread) {
  const bias_residual_t *b = context;
  float buffer[COLUMNS_PER_TASK];
  int column = task * COLUMNS_PER_TASK, count = min_int(COLUMNS_PER_TASK, b->width - column);
  float *sum = b->d_bias + column;
  (void)thread;
  if (b->overwrite) memset(sum, 0, (size_t)count * sizeof *sum);
  for (int row = 0; row < b->rows; row++) {
    size_t at = (size_t)row * (size_t)b->width + (size_t)column;
    add_row(train_dtype_read(b->dtype, b->d_out, at, (size_t)count, buffer), count, sum);
  }
}

void train_host_bias_backward(const train_exec_t *exec, const void *d_out, int rows, int width,
                              bool overwrite, float *d_bias) {
  bias_residual_t b = {.dtype = exec->dtype,
                       .rows = rows,
                       .width = width,
                       .d_out = d_out,
                       .overwrite = overwrite,
                       .d_bias = d_bias};
  train_pool_run(exec->pool, divide_up(width, COLUMNS_PER_TASK), backward_task, &b);
}
