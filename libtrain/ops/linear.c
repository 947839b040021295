/*
 * The linear layer: three matrix products, with bias, residual and GELU in their epilogues. The
 * gradient of the bias is computed in the epilogue of the first tile in each row of tiles of the
 * weight's gradient.
 */
#include <assert.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/gemm.h"
#include "libtrain/ops/host.h"

#define SQRT_2_OVER_PI 0.79788456f
#define CUBIC 0.044715f

/* Arguments of the epilogues: arrays of [rows, out_width]; `hidden` is [rows, in_width]. */
typedef struct arguments {
  int rows, width; /* of the arrays below */
  const float *bias, *residual;
  float *active;
  const float *hidden;
  const float *d_out;
  bool overwrite;
  float *d_bias;
} epilogue_arguments_t;

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
    active[i] = 0.5f * x * (1.0f + train_tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
  }
}

static void forward_epilogue(const void *context, const train_tile_t *tile) {
  const epilogue_arguments_t *e = context;
  const float *bias = e->bias + tile->column;
  for (int i = 0; i < tile->rows; i++) {
    size_t at = (size_t)(tile->row + i) * e->width + tile->column;
    float *out = tile->values + (size_t)i * tile->stride;
    if (e->active != NULL) {
      add_bias_and_gelu(bias, tile->columns, out, e->active + at);
    } else if (e->residual != NULL) {
      add_bias_and_residual(bias, e->residual + at, tile->columns, out);
    } else {
      add_bias(bias, tile->columns, out);
    }
  }
}

void train_host_linear_forward(const train_exec_t *exec, const train_linear_t *linear,
                               const void *in, int rows, const void *weight, const void *bias,
                               const void *residual, void *out, void *active) {
  assert(linear->split == TRAIN_TENSOR_SPLIT_NONE);
  assert(bias != NULL || (residual == NULL && active == NULL));
  const epilogue_arguments_t arguments = {
      .width = linear->out_width, .bias = bias, .residual = residual, .active = active};
  const train_product_t product = {.rows = rows,
                                   .columns = linear->out_width,
                                   .depth = linear->in_width,
                                   .a = in,
                                   .a_stride = linear->in_width,
                                   .b = weight,
                                   .b_stride = linear->in_width,
                                   .b_transposed = true,
                                   .out = out,
                                   .out_stride = linear->out_width,
                                   .epilogue = bias != NULL ? forward_epilogue : NULL,
                                   .context = &arguments};
  train_gemm_run(exec->gemm, &product, 1);
}

TRAIN_VECTORIZED
static void gelu_backward(const float *in, int count, float *restrict d) {
  for (int i = 0; i < count; i++) {
    float x = in[i];
    float t = train_tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
    float inner_slope = SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x * x);
    d[i] *= 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_slope;
  }
}

static void d_in_epilogue(const void *context, const train_tile_t *tile) {
  const epilogue_arguments_t *e = context;
  for (int i = 0; i < tile->rows; i++) {
    gelu_backward(e->hidden + (size_t)(tile->row + i) * e->width + tile->column, tile->columns,
                  tile->values + (size_t)i * tile->stride);
  }
}

TRAIN_VECTORIZED
static void add_rows(const float *d_out, int rows, int stride, int count, float *restrict sum) {
  for (int row = 0; row < rows; row++) {
    const float *d = d_out + (size_t)row * stride;
    for (int i = 0; i < count; i++) sum[i] += d[i];
  }
}

/* The rows of a tile are output features. */
static void d_weight_epilogue(const void *context, const train_tile_t *tile) {
  const epilogue_arguments_t *e = context;
  if (tile->column > 0) return;
  float *d_bias = e->d_bias + tile->row;
  if (e->overwrite) memset(d_bias, 0, (size_t)tile->rows * sizeof *d_bias);
  add_rows(e->d_out + tile->row, e->rows, e->width, tile->rows, d_bias);
}

void train_host_linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                                const void *d_out, const void *in, int rows, const void *weight,
                                const void *hidden, bool overwrite, void *d_in, float *d_weight,
                                float *d_bias) {
  assert(linear->split == TRAIN_TENSOR_SPLIT_NONE);
  int in_width = linear->in_width, out_width = linear->out_width;
  const epilogue_arguments_t to_in = {.width = in_width, .hidden = hidden};
  const epilogue_arguments_t to_bias = {
      .rows = rows, .width = out_width, .d_out = d_out, .overwrite = overwrite, .d_bias = d_bias};
  const train_product_t products[] = {{.rows = out_width,
                                       .columns = in_width,
                                       .depth = rows,
                                       .a = d_out,
                                       .a_stride = out_width,
                                       .a_transposed = true,
                                       .b = in,
                                       .b_stride = in_width,
                                       .add = !overwrite,
                                       .out = d_weight,
                                       .out_stride = in_width,
                                       .epilogue = d_weight_epilogue,
                                       .context = &to_bias},
                                      {.rows = rows,
                                       .columns = in_width,
                                       .depth = out_width,
                                       .a = d_out,
                                       .a_stride = out_width,
                                       .b = weight,
                                       .b_stride = in_width,
                                       .out = d_in,
                                       .out_stride = in_width,
                                       .epilogue = hidden != NULL ? d_in_epilogue : NULL,
                                       .context = &to_in}};
  train_gemm_run(exec->gemm, products, 2);
}
