/*
 * Layer normalization, row by row. Backward sums the gradients of weight and bias over a fixed
 * number of row chunks. The partial sums are stored in scratch and added in chunk order.
 *
 * Rows of narrow types are converted into buffers of one row, which stay in the cache: memory is
 * read and written once, in the narrow type.
 */
#include <math.h>
#include <string.h>

#include "libtrain/common/vector.h"
#include "libtrain/ops/host.h"

#define EPSILON 1e-5f
#define ROW_CHUNKS 32 /* of rows */

/* Float32 rows of a thread, for narrow types. */
enum { WEIGHT_BUFFER, BIAS_BUFFER, IN_BUFFER, OUT_BUFFER, BUFFERS };
enum { D_OUT_BUFFER = BIAS_BUFFER }; /* backward does not read the bias */

typedef struct layernorm {
  train_dtype_t dtype;
  int rows, width;
  const void *in, *weight, *bias;
  void *out;
  float *mean, *rstd;
  const void *d_out;
  bool first;
  void *d_stream;
  float *partial; /* [ROW_CHUNKS, 2, width] */
  float *buffers; /* [threads, BUFFERS, width] */
} layernorm_t;

static int chunk_count(int rows) {
  return rows < ROW_CHUNKS ? rows : ROW_CHUNKS;
}

/* The first row of a chunk; for chunk == chunk_count the number of rows. */
static int chunk_start(int rows, int chunk) {
  return (int)((long)rows * chunk / chunk_count(rows));
}

static float *buffer_of(const layernorm_t *l, int thread, int buffer) {
  return l->buffers + ((size_t)thread * BUFFERS + (size_t)buffer) * (size_t)l->width;
}

/* A row of an array as float32, read or converted into the thread's buffer. */
static const float *read_row(const layernorm_t *l, const void *array, int row, int thread,
                             int buffer) {
  size_t width = (size_t)l->width;
  return train_dtype_read(l->dtype, array, (size_t)row * width, width,
                          buffer_of(l, thread, buffer));
}

/* Where a row is computed: in the array itself, or in a buffer that store_row rounds into it. */
static float *row_to_store(const layernorm_t *l, void *array, int row, int thread) {
  if (l->dtype != TRAIN_FLOAT32) return buffer_of(l, thread, OUT_BUFFER);
  return (float *)array + (size_t)row * (size_t)l->width;
}

static void store_row(const layernorm_t *l, const float *values, void *array, int row) {
  size_t width = (size_t)l->width;
  if (l->dtype == TRAIN_FLOAT32) return;
  train_dtype_narrow(l->dtype, values, width, train_dtype_at(l->dtype, array, (size_t)row * width));
}

TRAIN_VECTORIZED
static void normalize(const float *x, const float *weight, const float *bias, int width,
                      float *restrict y, float *mean, float *rstd) {
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < width; i++) sum += x[i];
  float center = sum / (float)width;
#pragma omp simd reduction(+ : squares)
  for (int i = 0; i < width; i++) squares += (x[i] - center) * (x[i] - center);
  float scale = 1.0f / sqrtf(squares / (float)width + EPSILON);
  for (int i = 0; i < width; i++) y[i] = (x[i] - center) * scale * weight[i] + bias[i];
  *mean = center;
  *rstd = scale;
}

static void forward_task(void *context, int task, int thread) {
  const layernorm_t *l = context;
  const float *weight = read_row(l, l->weight, 0, thread, WEIGHT_BUFFER);
  const float *bias = read_row(l, l->bias, 0, thread, BIAS_BUFFER);
  for (int row = chunk_start(l->rows, task); row < chunk_start(l->rows, task + 1); row++) {
    float *out = row_to_store(l, l->out, row, thread);
    normalize(read_row(l, l->in, row, thread, IN_BUFFER), weight, bias, l->width, out,
              &l->mean[row], &l->rstd[row]);
    store_row(l, out, l->out, row);
  }
}

void train_host_layernorm_forward(const train_exec_t *exec, const void *in, const void *weight,
                                  const void *bias, int rows, int width, void *out, float *mean,
                                  float *rstd) {
  layernorm_t l = {.dtype = exec->dtype,
                   .rows = rows,
                   .width = width,
                   .in = in,
                   .weight = weight,
                   .bias = bias,
                   .out = out,
                   .mean = mean,
                   .rstd = rstd,
                   .buffers = exec->scratch};
  train_pool_run(exec->pool, chunk_count(rows), forward_task, &l);
}

/* With n = (x - mean) * rstd and g = d_out * weight, the gradient of a row is
 * rstd * (g - average(g) - n * average(g * n)). */
TRAIN_VECTORIZED
static void normalize_backward(const float *x, const float *weight, const float *d, int width,
                               float center, float scale, float *restrict d_x,
                               float *restrict d_weight, float *restrict d_bias) {
  float g_sum = 0, gn_sum = 0;
#pragma omp simd reduction(+ : g_sum, gn_sum)
  for (int i = 0; i < width; i++) {
    float n = (x[i] - center) * scale, g = d[i] * weight[i];
    g_sum += g;
    gn_sum += g * n;
    d_weight[i] += d[i] * n;
    d_bias[i] += d[i];
  }
  float g_average = g_sum / (float)width, gn_average = gn_sum / (float)width;
  for (int i = 0; i < width; i++) {
    float n = (x[i] - center) * scale;
    d_x[i] += scale * (d[i] * weight[i] - g_average - n * gn_average);
  }
}

/* The row of d_stream that is added to. */
static float *stream_row(const layernorm_t *l, int row, int thread) {
  float *values = row_to_store(l, l->d_stream, row, thread);
  if (l->first) {
    memset(values, 0, (size_t)l->width * sizeof *values);
  } else {
    (void)read_row(l, l->d_stream, row, thread, OUT_BUFFER);
  }
  return values;
}

static void backward_task(void *context, int task, int thread) {
  const layernorm_t *l = context;
  size_t width = (size_t)l->width;
  float *partial = l->partial + (size_t)task * 2 * width;
  const float *weight = read_row(l, l->weight, 0, thread, WEIGHT_BUFFER);
  memset(partial, 0, 2 * width * sizeof *partial);
  for (int row = chunk_start(l->rows, task); row < chunk_start(l->rows, task + 1); row++) {
    float *d_x = stream_row(l, row, thread);
    normalize_backward(read_row(l, l->in, row, thread, IN_BUFFER), weight,
                       read_row(l, l->d_out, row, thread, D_OUT_BUFFER), l->width, l->mean[row],
                       l->rstd[row], d_x, partial, partial + width);
    store_row(l, d_x, l->d_stream, row);
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
  layernorm_t l = {.dtype = exec->dtype,
                   .rows = rows,
                   .width = width,
                   .in = in,
                   .weight = weight,
                   .mean = (float *)mean,
                   .rstd = (float *)rstd,
                   .d_out = d_out,
                   .first = first,
                   .d_stream = d_stream,
                   .partial = exec->scratch,
                   .buffers = exec->scratch + (size_t)ROW_CHUNKS * 2 * (size_t)width};
  train_pool_run(exec->pool, chunk_count(rows), backward_task, &l);
  if (overwrite) {
    memset(d_weight, 0, (size_t)width * sizeof *d_weight);
    memset(d_bias, 0, (size_t)width * sizeof *d_bias);
  }
  add_partials(exec->scratch, chunk_count(rows), width, d_weight, d_bias);
}

size_t train_host_layernorm_scratch(const train_ops_sizes_t *sizes) {
  size_t partials = sizes->training ? (size_t)ROW_CHUNKS * 2 : 0;
  size_t buffers = sizes->dtype != TRAIN_FLOAT32 ? (size_t)sizes->threads * BUFFERS : 0;
  return (partials + buffers) * (size_t)sizes->width;
}
