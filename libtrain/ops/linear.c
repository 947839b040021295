/* The linear layer: three matrix products, left to OpenBLAS, and the bias. */
#include <cblas.h>
#include <stddef.h>
#include <string.h>

#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"

void train_linear_forward(const float *in, const float *weight, const float *bias, int rows,
                          int in_width, int out_width, float *out) {
  if (bias != NULL) {
    for (int row = 0; row < rows; row++) {
      memcpy(out + (size_t)row * out_width, bias, (size_t)out_width * sizeof *bias);
    }
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out_width, in_width, 1.0f, in,
              in_width, weight, in_width, bias != NULL ? 1.0f : 0.0f, out, out_width);
}

TRAIN_VECTORIZED
static void add_rows(const float *d_out, int rows, int width, float *restrict d_bias) {
  for (int row = 0; row < rows; row++) {
    const float *d = d_out + (size_t)row * width;
    for (int i = 0; i < width; i++) d_bias[i] += d[i];
  }
}

void train_linear_backward(const float *d_out, const float *in, const float *weight, int rows,
                           int in_width, int out_width, float *d_in, float *d_weight,
                           float *d_bias) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, in_width, out_width, 1.0f, d_out,
              out_width, weight, in_width, 0.0f, d_in, in_width);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out_width, in_width, rows, 1.0f, d_out,
              out_width, in, in_width, 1.0f, d_weight, in_width);
  if (d_bias != NULL) add_rows(d_out, rows, out_width, d_bias);
}
