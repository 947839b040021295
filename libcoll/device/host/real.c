/*
 * The float32 and float64 loops. Which of two NaNs a sum returns is up to the processor, and to the
 * compiler, which may swap the operands: so sums and products come out as the one default NaN, and
 * equal values give equal bits everywhere. MIN and MAX keep a NaN from either side, which the bare
 * comparison would lose on the left; of two equal zeros they take the right one.
 */
#include <coll.h>

#include <math.h>

#include "device/host/kernels.h"

static inline float float32_settled(float value) {
  return value == value ? value : NAN;
}

static inline double float64_settled(double value) {
  return value == value ? value : (double)NAN;
}

#define REAL_KERNELS(prefix, type)                                 \
  HOST_PAIR_LOOP(prefix##_sum, type, prefix##_settled(a + b))      \
  HOST_PAIR_LOOP(prefix##_product, type, prefix##_settled(a *b))   \
  HOST_PAIR_LOOP(prefix##_max, type, ((a > b) | (a != a)) ? a : b) \
  HOST_PAIR_LOOP(prefix##_min, type, ((a < b) | (a != a)) ? a : b) \
  HOST_SCALE_LOOP(prefix##_scale, type, prefix##_settled(s *a))    \
  HOST_DIVIDE_LOOP(prefix##_divide, type, type)                    \
  HOST_KERNELS(prefix, type)

REAL_KERNELS(float32, float);
REAL_KERNELS(float64, double);
