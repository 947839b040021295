/* Layer normalisation, a row at a time: one pass for the statistics, one for the result. */
#include <math.h>
#include <stddef.h>

#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"

#define EPSILON 1e-5f

TRAIN_VECTORIZED
void train_layernorm_forward(const float *in, const float *weight, const float *bias, int rows,
                             int width, float *out, float *mean, float *rstd) {
  for (int row = 0; row < rows; row++) {
    const float *x = in + (size_t)row * width;
    float *restrict y = out + (size_t)row * width;
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < width; i++) sum += x[i];
    float center = sum / (float)width;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; i++) squares += (x[i] - center) * (x[i] - center);
    float scale = 1.0f / sqrtf(squares / (float)width + EPSILON);
    for (int i = 0; i < width; i++) y[i] = (x[i] - center) * scale * weight[i] + bias[i];
    mean[row] = center;
    rstd[row] = scale;
  }
}

/* With n = (x - mean) * rstd and g = d_out * weight, the gradient of a row is
 * rstd * (g - average(g) - n * average(g * n)). */
TRAIN_VECTORIZED
void train_layernorm_backward(const float *d_out, const float *in, const float *weight,
                              const float *mean, const float *rstd, int rows, int width,
                              float *d_stream, float *d_weight, float *d_bias) {
  for (int row = 0; row < rows; row++) {
    const float *x = in + (size_t)row * width, *d = d_out + (size_t)row * width;
    float *restrict d_x = d_stream + (size_t)row * width;
    float *restrict d_w = d_weight, *restrict d_b = d_bias;
    float center = mean[row], scale = rstd[row], g_sum = 0, gn_sum = 0;
#pragma omp simd reduction(+ : g_sum, gn_sum)
    for (int i = 0; i < width; i++) {
      float n = (x[i] - center) * scale, g = d[i] * weight[i];
      g_sum += g;
      gn_sum += g * n;
      d_w[i] += d[i] * n;
      d_b[i] += d[i];
    }
    float g_average = g_sum / (float)width, gn_average = gn_sum / (float)width;
    for (int i = 0; i < width; i++) {
      float n = (x[i] - center) * scale;
      d_x[i] += scale * (d[i] * weight[i] - g_average - n * gn_average);
    }
  }
}
