/*
 * Causal attention, one head of one sequence at a time: the scores of all its positions are a
 * matrix product, and so are the weighted values. Above the diagonal the weights are zero.
 */
#include <cblas.h>
#include <math.h>
#include <stddef.h>

#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"

/* Softmax of row t over its first t + 1 scores, in place. */
TRAIN_VECTORIZED
static void softmax_causal(int length, float *scores) {
  for (int t = 0; t < length; t++) {
    float *restrict row = scores + (size_t)t * length;
    float most = train_largest(row, t + 1), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i <= t; i++) {
      row[i] = train_exp(row[i] - most);
      sum += row[i];
    }
    float inverse = 1.0f / sum;
    for (int i = 0; i <= t; i++) row[i] *= inverse;
    for (int i = t + 1; i < length; i++) row[i] = 0;
  }
}

/* d_scores = weights * (d_weights - sum(weights * d_weights)) row by row, in place of d_weights. */
TRAIN_VECTORIZED
static void softmax_causal_backward(int length, const float *weights, float *d) {
  for (int t = 0; t < length; t++) {
    const float *w = weights + (size_t)t * length;
    float *restrict d_row = d + (size_t)t * length;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i <= t; i++) sum += w[i] * d_row[i];
    for (int i = 0; i < length; i++) d_row[i] = w[i] * (d_row[i] - sum);
  }
}

void train_attention_forward(const float *qkv, int sequences, int length, int heads, int width,
                             float *weights, float *out) {
  int head_width = width / heads, stride = 3 * width;
  float scale = 1.0f / sqrtf((float)head_width);
  for (int each = 0; each < sequences * heads; each++) {
    size_t first_row = (size_t)(each / heads) * length,
           column = (size_t)(each % heads) * head_width;
    const float *query = qkv + first_row * stride + column;
    const float *key = query + width, *value = query + 2 * width;
    float *scores = weights + (size_t)each * length * length;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, length, length, head_width, scale, query,
                stride, key, stride, 0.0f, scores, length);
    softmax_causal(length, scores);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, length, head_width, length, 1.0f, scores,
                length, value, stride, 0.0f, out + first_row * width + column, width);
  }
}

void train_attention_backward(const float *d_out, const float *qkv, const float *weights,
                              int sequences, int length, int heads, int width, float *scratch,
                              float *d_qkv) {
  int head_width = width / heads, stride = 3 * width;
  float scale = 1.0f / sqrtf((float)head_width);
  for (int each = 0; each < sequences * heads; each++) {
    size_t first_row = (size_t)(each / heads) * length,
           column = (size_t)(each % heads) * head_width;
    const float *query = qkv + first_row * stride + column;
    const float *key = query + width, *value = query + 2 * width;
    const float *d = d_out + first_row * width + column;
    const float *w = weights + (size_t)each * length * length;
    float *d_query = d_qkv + first_row * stride + column;
    float *d_key = d_query + width, *d_value = d_query + 2 * width;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, length, head_width, length, 1.0f, w,
                length, d, width, 0.0f, d_value, stride);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, length, length, head_width, 1.0f, d, width,
                value, stride, 0.0f, scratch, length);
    softmax_causal_backward(length, w, scratch);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, length, head_width, length, scale,
                scratch, length, key, stride, 0.0f, d_query, stride);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, length, head_width, length, scale, scratch,
                length, query, stride, 0.0f, d_key, stride);
  }
}
