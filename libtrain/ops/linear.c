/*
 * The linear layer: three matrix products, with bias, residual and GELU in their epilogues. The
 * gradient of the bias is computed in the epilogue of the first tile in each row of tiles of the
 * weight's gradient.
 *
 * Tiles of outputs of a narrow type arrive in float32 and are rounded when the epilogue stores
 * them.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/gelu.h"
#include "libtrain/ops/host.h"

#define BLOCK 512 /* columns converted at a time */

/* Arguments of the epilogues: the bias and arrays of [rows, width]. */
typedef struct arguments {
  train_dtype_t dtype;
  int rows, width;
  const void *bias, *residual;
  void *out, *active;
  const void *hidden;
  const void *d_out;
  bool overwrite;
  float *d_bias;
} epilogue_arguments_t;

static int min_int(int a, int b) {
  return a < b ? a : b;
}

/* The index in [rows, width] of an element of a tile. */
static size_t index_of(const epilogue_arguments_t *e, const train_tile_t *tile, int row,
                       int column) {
  return (size_t)(tile->row + row) * (size_t)e->width + (size_t)(tile->column + column);
}

/* Rounds part of a row into an array of a narrow type. */
static void store(const epilogue_arguments_t *e, const float *values, int count, void *array,
                  size_t index) {
  if (e->dtype == TRAIN_FLOAT32) return;
  train_dtype_narrow(e->dtype, values, (size_t)count, train_dtype_at(e->dtype, array, index));
}

TRAIN_VECTORIZED
static void add_bias(const float *bias, int count, float *restrict out) {
  for (int i = 0; i < count; i++) out[i] += bias[i];
}

TRAIN_VECTORIZED
static void add_bias_and_residual(const float *bias, const float *residual, int count,
                                  float *restrict out) {
  for (int i = 0; i < count; i++) out[i] += bias[i] + residual[i];
}

TRAIN_VECTORIZED
static void add_bias_and_gelu(const float *bias, int count, float *restrict out,
                              float *restrict active) {
  for (int i = 0; i < count; i++) {
    float x = out[i] + bias[i];
    out[i] = x;
    active[i] = train_gelu(x);
  }
}

/* `count` values of a row of a tile. */
static void finish_forward(const epilogue_arguments_t *e, const float *bias, float *values,
                           int count, size_t index) {
  float buffer[BLOCK];
  if (e->active != NULL) {
    float *active = e->dtype == TRAIN_FLOAT32 ? (float *)e->active + index : buffer;
    add_bias_and_gelu(bias, count, values, active);
    store(e, active, count, e->active, index);
  } else if (e->residual != NULL) {
    add_bias_and_residual(
        bias, train_dtype_read(e->dtype, e->residual, index, (size_t)count, buffer), count, values);
  } else if (bias != NULL) {
    add_bias(bias, count, values);
  }
  store(e, values, count, e->out, index);
}

static void forward_epilogue(const void *context, const train_tile_t *tile) {
  const epilogue_arguments_t *e = context;
  float buffer[BLOCK];
  const float *bias = NULL;
  for (int column = 0; column < tile->columns; column += BLOCK) {
    int count = min_int(BLOCK, tile->columns - column);
    if (e->bias != NULL) {
      bias = train_dtype_read(e->dtype, e->bias, (size_t)(tile->column + column), (size_t)count,
                              buffer);
    }
    for (int row = 0; row < tile->rows; row++) {
      finish_forward(e, bias, tile->values + (size_t)row * (size_t)tile->stride + column, count,
                     index_of(e, tile, row, column));
    }
  }
}

void train_host_linear_forward(const train_exec_t *exec, const train_linear_t *linear,
                               const void *in, int rows, const void *weight, const void *bias,
                               const void *residual, void *out, void *active) {
  assert(bias != NULL || (residual == NULL && active == NULL));
  bool narrow = exec->dtype != TRAIN_FLOAT32;
  const epilogue_arguments_t arguments = {.dtype = exec->dtype,
                                          .width = linear->out_width,
                                          .bias = bias,
                                          .residual = residual,
                                          .out = out,
                                          .active = active};
  const train_product_t product = {.rows = rows,
                                   .columns = linear->out_width,
                                   .depth = linear->in_width,
                                   .dtype = exec->dtype,
                                   .a = in,
                                   .a_stride = linear->in_width,
                                   .b = weight,
                                   .b_stride = linear->in_width,
                                   .b_transposed = true,
                                   .out = narrow ? NULL : out,
                                   .out_stride = linear->out_width,
                                   .epilogue = bias != NULL || narrow ? forward_epilogue : NULL,
                                   .context = &arguments};
  train_gemm_run(exec->gemm, &product, 1);
}

TRAIN_VECTORIZED
static void gelu_backward(const float *in, int count, float *restrict d) {
  for (int i = 0; i < count; i++) d[i] *= train_gelu_slope(in[i]);
}

static void finish_d_in(const epilogue_arguments_t *e, float *values, int count, size_t index) {
  float buffer[BLOCK];
  if (e->hidden != NULL) {
    gelu_backward(train_dtype_read(e->dtype, e->hidden, index, (size_t)count, buffer), count,
                  values);
  }
  store(e, values, count, e->out, index);
}

static void d_in_epilogue(const void *context, const train_tile_t *tile) {
  const epilogue_arguments_t *e = context;
  for (int row = 0; row < tile->rows; row++) {
    for (int column = 0; column < tile->columns; column += BLOCK) {
      finish_d_in(e, tile->values + (size_t)row * (size_t)tile->stride + column,
                  min_int(BLOCK, tile->columns - column), index_of(e, tile, row, column));
    }
  }
}

TRAIN_VECTORIZED
static void add_row(const float *row, int count, float *restrict sum) {
  for (int i = 0; i < count; i++) sum[i] += row[i];
}

/* Adds the sums of `count` columns of d_out. */
static void add_columns(const epilogue_arguments_t *e, int column, int count, float *sum) {
  float buffer[BLOCK];
  for (int row = 0; row < e->rows; row++) {
    size_t index = (size_t)row * (size_t)e->width + (size_t)column;
    add_row(train_dtype_read(e->dtype, e->d_out, index, (size_t)count, buffer), count, sum);
  }
}

/* The rows of a tile are output features. */
static void d_weight_epilogue(const void *context, const train_tile_t *tile) {
  const epilogue_arguments_t *e = context;
  if (tile->column > 0) return;
  float *d_bias = e->d_bias + tile->row;
  if (e->overwrite) memset(d_bias, 0, (size_t)tile->rows * sizeof *d_bias);
  for (int at = 0; at < tile->rows; at += BLOCK) {
    add_columns(e, tile->row + at, min_int(BLOCK, tile->rows - at), d_bias + at);
  }
}

/* The gradient of the weight, and of the bias unless to_bias->d_bias is NULL. */
static train_product_t weight_product(const train_linear_t *linear, const void *in,
                                      const epilogue_arguments_t *to_bias, float *d_weight) {
  return (train_product_t){.rows = linear->out_width,
                           .columns = linear->in_width,
                           .depth = to_bias->rows,
                           .dtype = to_bias->dtype,
                           .a = to_bias->d_out,
                           .a_stride = linear->out_width,
                           .a_transposed = true,
                           .b = in,
                           .b_stride = linear->in_width,
                           .add = !to_bias->overwrite,
                           .out = d_weight,
                           .out_stride = linear->in_width,
                           .epilogue = to_bias->d_bias != NULL ? d_weight_epilogue : NULL,
                           .context = to_bias};
}

static train_product_t in_product(const train_linear_t *linear, const void *d_out,
                                  const void *weight, const epilogue_arguments_t *to_in) {
  bool narrow = to_in->dtype != TRAIN_FLOAT32;
  return (train_product_t){.rows = to_in->rows,
                           .columns = linear->in_width,
                           .depth = linear->out_width,
                           .dtype = to_in->dtype,
                           .a = d_out,
                           .a_stride = linear->out_width,
                           .b = weight,
                           .b_stride = linear->in_width,
                           .out = narrow ? NULL : to_in->out,
                           .out_stride = linear->in_width,
                           .epilogue = to_in->hidden != NULL || narrow ? d_in_epilogue : NULL,
                           .context = to_in};
}

void train_host_linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                                const void *d_out, const void *in, int rows, const void *weight,
                                const void *hidden, bool overwrite, void *d_in, float *d_weight,
                                float *d_bias) {
  assert(d_weight != NULL || d_bias == NULL);
  const epilogue_arguments_t to_in = {
      .dtype = exec->dtype, .rows = rows, .width = linear->in_width, .out = d_in, .hidden = hidden};
  const epilogue_arguments_t to_bias = {.dtype = exec->dtype,
                                        .rows = rows,
                                        .width = linear->out_width,
                                        .d_out = d_out,
                                        .overwrite = overwrite,
                                        .d_bias = d_bias};
  train_product_t products[2];
  int count = 0;
  if (d_weight != NULL) products[count++] = weight_product(linear, in, &to_bias, d_weight);
  if (d_in != NULL) products[count++] = in_product(linear, d_out, weight, &to_in);
  train_gemm_run(exec->gemm, products, count);
}
