/*
 * Vectorization support for the loops between matrix products: a marker that compiles a function
 * for baseline x86-64, AVX2 with FMA, and AVX-512, selected when the program is loaded; and
 * exponential and hyperbolic tangent in a form that compilers vectorize.
 */
#ifndef LIBTRAIN_COMMON_VECTOR_H
#define LIBTRAIN_COMMON_VECTOR_H

#include <stdint.h>
#include <string.h>

/* GCC only: Clang names the clones so that other files cannot call them. Not with sanitizers, whose
 * runtimes are not initialized when the loader selects a clone. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRAIN_VECTORIZED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAIN_VECTORIZED
#endif

/* e^x with relative error 2e-7. Below -87 the result is about 1e-38 instead of a denormal, above 88
 * it is e^88. NaN gives NaN. x is split into n ln 2 + r with |r| <= ln 2 / 2; n goes into the
 * exponent bits, e^r is a Taylor polynomial. */
static inline float train_exp(float x) {
  const float round_to_integer = 0x1.8p23f; /* adding it leaves the rounded integer in the low
                                             * bits */
  const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  float shifted = x * 1.44269504f + round_to_integer;
  float n = shifted - round_to_integer;
  float r = (x - n * ln2_high) - n * ln2_low;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000u; /* 2^n */
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

/* tanh x with absolute error 3e-7, which is sufficient for GELU; near 0 the relative error is
 * larger. */
static inline float train_tanh(float x) {
  return 1.0f - 2.0f / (train_exp(2.0f * x) + 1.0f);
}

/* The largest of values[0..count), count >= 1; NaNs may be ignored. Keeps eight running maxima, a
 * reordering that compilers may not do by themselves. */
static inline float train_max(const float *values, int count) {
  enum { LANES = 8 };
  float lanes_max[LANES], max = values[0];
  for (int lane = 0; lane < LANES; lane++) lanes_max[lane] = max;
  int i = 0;
  for (; i + LANES <= count; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      lanes_max[lane] = values[i + lane] > lanes_max[lane] ? values[i + lane] : lanes_max[lane];
    }
  }
  for (; i < count; i++) max = values[i] > max ? values[i] : max;
  for (int lane = 0; lane < LANES; lane++) {
    max = lanes_max[lane] > max ? lanes_max[lane] : max;
  }
  return max;
}

#endif
