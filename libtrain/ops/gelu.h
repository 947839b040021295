/* GELU in its tanh form (Hendrycks and Gimpel 2016), for loops that compilers vectorize. */
#ifndef LIBTRAIN_OPS_GELU_H
#define LIBTRAIN_OPS_GELU_H

#include "libtrain/common/vector.h"

#define TRAIN_SQRT_2_OVER_PI 0.79788456f
#define TRAIN_GELU_CUBIC 0.044715f

static inline float train_gelu(float x) {
  return 0.5f * x * (1.0f + train_tanh(TRAIN_SQRT_2_OVER_PI * (x + TRAIN_GELU_CUBIC * x * x * x)));
}

static inline float train_gelu_slope(float x) {
  float t = train_tanh(TRAIN_SQRT_2_OVER_PI * (x + TRAIN_GELU_CUBIC * x * x * x));
  float inner_slope = TRAIN_SQRT_2_OVER_PI * (1.0f + 3.0f * TRAIN_GELU_CUBIC * x * x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_slope;
}

#endif
