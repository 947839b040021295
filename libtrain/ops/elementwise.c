/* GELU and the residual sum: loops over elements without structure. */
#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"

#define SQRT_2_OVER_PI 0.79788456f
#define CUBIC 0.044715f

TRAIN_VECTORIZED
void train_gelu_forward(const float *in, long count, float *restrict out) {
  for (long i = 0; i < count; i++) {
    float x = in[i];
    out[i] = 0.5f * x * (1.0f + train_tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
  }
}

TRAIN_VECTORIZED
void train_gelu_backward(const float *in, long count, float *restrict d) {
  for (long i = 0; i < count; i++) {
    float x = in[i];
    float t = train_tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
    float inner_slope = SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x * x);
    d[i] *= 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_slope;
  }
}

TRAIN_VECTORIZED
void train_residual_forward(const float *a, const float *b, long count, float *restrict out) {
  for (long i = 0; i < count; i++) out[i] = a[i] + b[i];
}
