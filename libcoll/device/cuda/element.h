/*
 * Arithmetic of one element of each dtype, with the rules of device/ops.h, so that results have the
 * bits of the host's. Each type has a wide type in which it is computed, and
 *
 *   decode, encode     to the wide type and back
 *   combine(op, a, b)  one operation of the canonical expression
 *   result             finishes a result before it is encoded: NaNs become the default NaN
 *   scale, divide      of a wide value; divide turns the sum of so many operands, of weighted
 *                      ones if they are floats, into their average
 *   weight             of an operand of an average (device/average.h), where the type `averages`:
 *                      averages of integers are sums that are divided later
 *
 * Compile without contraction (gcc -ffp-contract=off, nvcc -fmad=false), which rounds differently.
 */
#ifndef DEVICE_CUDA_ELEMENT_H
#define DEVICE_CUDA_ELEMENT_H

#include <coll.h>

#include "device/cuda/gpu.h"

#define NARROW_FUNCTION GPU_FUNCTION
#include "device/host/narrow.h"
#define AVERAGE_FUNCTION GPU_FUNCTION
#include "device/average.h"

/* wide_t is no narrower than int. Of sums and products it may have more bits than the element
 * keeps, as these depend on them in no way. word_t: the same without a sign, so that they wrap. */
#define GPU_INTEGER(prefix, element_t, wide_t, word_t)               \
  typedef wide_t prefix##_wide_t;                                    \
  typedef element_t prefix##_element_t;                              \
  GPU_FUNCTION wide_t prefix##_decode(element_t a) {                 \
    return a;                                                        \
  }                                                                  \
  GPU_FUNCTION element_t prefix##_encode(wide_t a) {                 \
    return (element_t)a;                                             \
  }                                                                  \
  GPU_FUNCTION wide_t prefix##_result(wide_t a) {                    \
    return a;                                                        \
  }                                                                  \
  GPU_FUNCTION wide_t prefix##_combine(int op, wide_t a, wide_t b) { \
    switch (op) {                                                    \
      case COLL_PROD: return (wide_t)((word_t)a * (word_t)b);        \
      case COLL_MAX: return a > b ? a : b;                           \
      case COLL_MIN: return a < b ? a : b;                           \
      case COLL_BAND: return a & b;                                  \
      case COLL_BOR: return a | b;                                   \
      case COLL_BXOR: return a ^ b;                                  \
      default: return (wide_t)((word_t)a + (word_t)b);               \
    }                                                                \
  }                                                                  \
  GPU_FUNCTION wide_t prefix##_scale(wide_t scalar, wide_t a) {      \
    return (wide_t)((word_t)scalar * (word_t)a);                     \
  }                                                                  \
  GPU_FUNCTION wide_t prefix##_divide(wide_t a, int operands) {      \
    return a / (wide_t)operands;                                     \
  }                                                                  \
  GPU_FUNCTION wide_t prefix##_weight(int operands) {                \
    (void)operands;                                                  \
    return 1;                                                        \
  }                                                                  \
  enum { prefix##_averages = false };

/* Of two equal zeros MAX and MIN return the right operand; of a NaN and a number, the NaN. */
#define GPU_REAL(prefix, storage_t, real_t, nan_t, default_nan)      \
  typedef real_t prefix##_wide_t;                                    \
  typedef storage_t prefix##_element_t;                              \
  GPU_FUNCTION real_t prefix##_result(real_t a) {                    \
    const nan_t bits = default_nan;                                  \
    real_t nan;                                                      \
    memcpy(&nan, &bits, sizeof nan);                                 \
    return a == a ? a : nan;                                         \
  }                                                                  \
  GPU_FUNCTION real_t prefix##_combine(int op, real_t a, real_t b) { \
    switch (op) {                                                    \
      case COLL_PROD: return a * b;                                  \
      case COLL_MAX: return a > b || a != a ? a : b;                 \
      case COLL_MIN: return a < b || a != a ? a : b;                 \
      default: return a + b;                                         \
    }                                                                \
  }                                                                  \
  GPU_FUNCTION real_t prefix##_scale(real_t scalar, real_t a) {      \
    return scalar * a;                                               \
  }                                                                  \
  GPU_FUNCTION real_t prefix##_divide(real_t a, int operands) {      \
    return a / (real_t)device_average_of(operands).divisor;          \
  }                                                                  \
  GPU_FUNCTION real_t prefix##_weight(int operands) {                \
    return (real_t)device_average_of(operands).weight;               \
  }                                                                  \
  enum { prefix##_averages = true };

#define GPU_FLOAT(prefix, real_t, nan_t, default_nan)  \
  GPU_REAL(prefix, real_t, real_t, nan_t, default_nan) \
  GPU_FUNCTION real_t prefix##_decode(real_t a) {      \
    return a;                                          \
  }                                                    \
  GPU_FUNCTION real_t prefix##_encode(real_t a) {      \
    return a;                                          \
  }

/* Computed in float32 and rounded once. */
#define GPU_NARROW(prefix, format, storage_t)               \
  GPU_REAL(prefix, storage_t, float, uint32_t, 0x7fc00000u) \
  GPU_FUNCTION float prefix##_decode(storage_t a) {         \
    return format##_decode(a);                              \
  }                                                         \
  GPU_FUNCTION storage_t prefix##_encode(float a) {         \
    return (storage_t)format##_encode(a);                   \
  }

GPU_INTEGER(gpu_int8, int8_t, int32_t, uint32_t)
GPU_INTEGER(gpu_uint8, uint8_t, uint32_t, uint32_t)
GPU_INTEGER(gpu_int16, int16_t, int32_t, uint32_t)
GPU_INTEGER(gpu_uint16, uint16_t, uint32_t, uint32_t)
GPU_INTEGER(gpu_int32, int32_t, int32_t, uint32_t)
GPU_INTEGER(gpu_uint32, uint32_t, uint32_t, uint32_t)
GPU_INTEGER(gpu_int64, int64_t, int64_t, uint64_t)
GPU_INTEGER(gpu_uint64, uint64_t, uint64_t, uint64_t)
GPU_FLOAT(gpu_float32, float, uint32_t, 0x7fc00000u)
GPU_FLOAT(gpu_float64, double, uint64_t, 0x7ff8000000000000u)
GPU_NARROW(gpu_float16, float16, uint16_t)
GPU_NARROW(gpu_bfloat16, bfloat16, uint16_t)
GPU_NARROW(gpu_float8_e4m3, float8_e4m3, uint8_t)
GPU_NARROW(gpu_float8_e5m2, float8_e5m2, uint8_t)

#endif
