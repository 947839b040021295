/*
 * Layer normalization, row by row. Backward sums the gradients of weight and bias over a fixed
 * number of row chunks. The partial sums are stored in scratch and added in chunk order.
 */
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/host.h"

#define EPSILON 1e-5f
#define ROW_CHUNKS 32 /* of rows */

typedef struct layernorm {
  int rows, width;
  const float *in, *weight, *bias;
  float *out, *mean, *rstd;
  const float *d_out;
  bool first;
  float *d_stream;
  float *partial; /* [RUNS, 2, width] */
} layernorm_t;

static int chunk_count(int rows) {
  return rows < ROW_CHUNKS ? rows : ROW_CHUNKS;
}

/* The first row of a chunk; for chunk == chunk_count the number of rows. */
static int chunk_start(int rows, int chunk) {
  return (int)((long)rows * chunk / chunk_count(rows));
}

TRAIN_VECTORIZED
static void normalize(const layernorm_t *l, int row) {
  int width = l->width;
  const float *x = l->in + (size_t)row * width;
  float *restrict y = l->out + (size_t)row * width;
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < width; i++) sum += x[i];
  float center = sum / (float)width;
#pragma omp simd reduction(+ : squares)
  for (int i = 0; i < width; i++) squares += (x[i] - center) * (x[i] - center);
  float scale = 1.0f / sqrtf(squares / (float)width + EPSILON);
  for (int i = 0; i < width; i++) y[i] = (x[i] - center) * scale * l->weight[i] + l->bias[i];
  l->mean[row] = center;
  l->rstd[row] = scale;
}

static void forward_task(void *context, int task, int thread) {
  const layernorm_t *l = context;
  (void)thread;
  for (int row = chunk_start(l->rows, task); row < chunk_start(l->rows, task + 1); row++) {
    normalize(l, row);
  }
}

void train_host_layernorm_forward(const train_exec_t *exec, const void *in, const void *weight,
                                  const void *bias, int rows, int width, void *out, float *mean,
                                  float *rstd) {
  layernorm_t l = {.rows = rows,
                   .width = width,
                   .in = in,
                   .weight = weight,
                   .bias = bias,
                   .out = out,
                   .mean = mean,
                   .rstd = rstd};
  train_pool_run(exec->pool, chunk_count(rows), forward_task, &l);
}

/* With n = (x - mean) * rstd and g = d_out * weight, the gradient of a row is
 * rstd * (g - average(g) - n * average(g * n)). */
TRAIN_VECTORIZED
static void normalize_backward(const layernorm_t *l, int row, float *restrict d_weight,
                               float *restrict d_bias) {
  int width = l->width;
  const float *x = l->in + (size_t)row * width, *d = l->d_out + (size_t)row * width;
  const float *weight = l->weight;
  float *restrict d_x = l->d_stream + (size_t)row * width;
  float center = l->mean[row], scale = l->rstd[row], g_sum = 0, gn_sum = 0;
#pragma omp simd reduction(+ : g_sum, gn_sum)
  for (int i = 0; i < width; i++) {
    float n = (x[i] - center) * scale, g = d[i] * weight[i];
    g_sum += g;
    gn_sum += g * n;
    d_weight[i] += d[i] * n;
    d_bias[i] += d[i];
  }
  float g_average = g_sum / (float)width, gn_average = gn_sum / (float)width;
  if (l->first) memset(d_x, 0, (size_t)width * sizeof *d_x);
  for (int i = 0; i < width; i++) {
    float n = (x[i] - center) * scale;
    d_x[i] += scale * (d[i] * weight[i] - g_average - n * gn_average);
  }
}

static void backward_task(void *context, int task, int thread) {
  const layernorm_t *l = context;
  size_t width = (size_t)l->width;
  float *partial = l->partial + (size_t)task * 2 * width;
  (void)thread;
  memset(partial, 0, 2 * width * sizeof *partial);
  for (int row = chunk_start(l->rows, task); row < chunk_start(l->rows, task + 1); row++) {
    normalize_backward(l, row, partial, partial + width);
  }
}

TRAIN_VECTORIZED
static void add_partials(const float *partial, int runs, int width, float *restrict d_weight,
                         float *restrict d_bias) {
  for (int chunk = 0; chunk < runs; chunk++, partial += 2 * (size_t)width) {
    for (int i = 0; i < width; i++) {
      d_weight[i] += partial[i];
      d_bias[i] += partial[width + i];
    }
  }
}

void train_host_layernorm_backward(const train_exec_t *exec, const void *d_out, const void *in,
                                   const void *weight, const float *mean, const float *rstd,
                                   int rows, int width, bool first, bool overwrite, void *d_stream,
                                   float *d_weight, float *d_bias) {
  layernorm_t l = {.rows = rows,
                   .width = width,
                   .in = in,
                   .weight = weight,
                   .mean = (float *)mean,
                   .rstd = (float *)rstd,
                   .d_out = d_out,
                   .first = first,
                   .d_stream = d_stream,
                   .partial = exec->scratch};
  train_pool_run(exec->pool, chunk_count(rows), backward_task, &l);
  if (overwrite) {
    memset(d_weight, 0, (size_t)width * sizeof *d_weight);
    memset(d_bias, 0, (size_t)width * sizeof *d_bias);
  }
  add_partials(exec->scratch, chunk_count(rows), width, d_weight, d_bias);
}

size_t train_host_layernorm_scratch(const train_ops_sizes_t *sizes) {
  return sizes->training ? (size_t)ROW_CHUNKS * 2 * (size_t)sizes->width : 0;
}
