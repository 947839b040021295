/*
 * The inner loops of the host device, one table per element type that is computed with as it is.
 * The narrow floats have no loops of their own: they are decoded to float32 (narrow.h), go through
 * the float32 table, and are encoded again. So a faster loop is written once per type, and a new
 * narrow type needs two conversions.
 */
#ifndef DEVICE_HOST_KERNELS_H
#define DEVICE_HOST_KERNELS_H

#include <stddef.h>

/* COLL_SUM, COLL_PROD, COLL_MAX and COLL_MIN, in the public order; COLL_AVG sums. */
#define HOST_OPS 4

/* dst[i] = left[i] op right[i]. dst may equal left or right and overlaps them in no other way. */
typedef void (*host_pair_t)(void *dst, const void *left, const void *right, size_t count);

/* dst[i] = *scalar * src[i]. dst may equal src. */
typedef void (*host_scale_t)(void *dst, const void *src, size_t count, const void *scalar);

/* buffer[i] = buffer[i] / divisor, divisor > 0. */
typedef void (*host_divide_t)(void *buffer, size_t count, int divisor);

typedef struct host_kernels {
  size_t bytes; /* of one element */
  host_pair_t pair[HOST_OPS];
  host_scale_t scale;
  host_divide_t divide;
} host_kernels_t;

extern const host_kernels_t host_int8, host_uint8, host_int32, host_uint32, host_int64, host_uint64;
extern const host_kernels_t host_float32, host_float64;

/* Says that no iteration depends on another, which holds because buffers are equal or apart, and
 * which a compiler cannot see: without it, dst == left would take the scalar loop. */
#define HOST_SIMD _Pragma("omp simd")

/* A pair loop over elements a and b of `type`; C has no other way to write it once. */
#define HOST_PAIR_LOOP(name, type, expression)                                     \
  static void name(void *dst, const void *left, const void *right, size_t count) { \
    type *out = dst;                                                               \
    const type *as = left, *bs = right;                                            \
    HOST_SIMD for (size_t i = 0; i < count; i++) {                                 \
      type a = as[i], b = bs[i];                                                   \
      out[i] = (type)(expression);                                                 \
    }                                                                              \
  }

/* A scale loop over elements a with the scalar s, both of `type`. */
#define HOST_SCALE_LOOP(name, type, expression)                                    \
  static void name(void *dst, const void *src, size_t count, const void *scalar) { \
    type *out = dst;                                                               \
    const type *as = src;                                                          \
    type s = *(const type *)scalar;                                                \
    HOST_SIMD for (size_t i = 0; i < count; i++) {                                 \
      type a = as[i];                                                              \
      out[i] = (type)(expression);                                                 \
    }                                                                              \
  }

/* A divide loop; the division is done in `wide`, which holds every value of the type and of the
 * divisor. */
#define HOST_DIVIDE_LOOP(name, type, wide)                    \
  static void name(void *buffer, size_t count, int divisor) { \
    type *out = buffer;                                       \
    wide d = (wide)divisor;                                   \
    HOST_SIMD for (size_t i = 0; i < count; i++) {            \
      out[i] = (type)((wide)out[i] / d);                      \
    }                                                         \
  }

#define HOST_KERNELS(prefix, type)                                       \
  const host_kernels_t host_##prefix = {sizeof(type),                    \
                                        {[COLL_SUM] = prefix##_sum,      \
                                         [COLL_PROD] = prefix##_product, \
                                         [COLL_MAX] = prefix##_max,      \
                                         [COLL_MIN] = prefix##_min},     \
                                        prefix##_scale,                  \
                                        prefix##_divide}

#endif
