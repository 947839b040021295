/* Softmax and cross-entropy in one; the loss comes from the logits, so that it cannot overflow. */
#include <math.h>
#include <stddef.h>

#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"

/* Turns a row of logits into probabilities and returns the log of what they were divided by. */
TRAIN_VECTORIZED
static float softmax(int classes, float *restrict row) {
  float most = train_largest(row, classes), sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < classes; i++) {
    row[i] = train_exp(row[i] - most);
    sum += row[i];
  }
  float inverse = 1.0f / sum;
  for (int i = 0; i < classes; i++) row[i] *= inverse;
  return most + logf(sum);
}

void train_cross_entropy_forward(const int32_t *targets, int rows, int classes, float *logits,
                                 float *losses) {
  for (int row = 0; row < rows; row++) {
    float *row_logits = logits + (size_t)row * classes;
    float target_logit = row_logits[targets[row]];
    losses[row] = softmax(classes, row_logits) - target_logit;
  }
}

TRAIN_VECTORIZED
void train_cross_entropy_backward(const int32_t *targets, int rows, int classes, float scale,
                                  float *restrict probabilities) {
  for (int row = 0; row < rows; row++) {
    float *d = probabilities + (size_t)row * classes;
    for (int i = 0; i < classes; i++) d[i] *= scale;
    d[targets[row]] -= scale;
  }
}
