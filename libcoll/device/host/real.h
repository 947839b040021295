/*
 * Operations on vectors of float32 and float64. Which of two NaNs an operation returns depends on
 * the processor and on the compiler, which may swap operands. Therefore a final result that is a
 * NaN is replaced by one default NaN, so that equal values give equal bits everywhere. Intermediate
 * results may be any NaN, because all operations propagate it. Of two equal zeros MAX and MIN
 * return the right operand.
 */
#ifndef DEVICE_HOST_REAL_H
#define DEVICE_HOST_REAL_H

#include "device/host/vector.h"

/* `a` where it is a number, `nan` where it is not. Written with intrinsics for AVX-512, because
 * compilers turn a selection by comparison into a vector mask instead of the mask register. */
#if VECTOR_BYTES == 64
#define REAL_OR_float32(a, nan)          \
  ((float32_vector_t)_mm512_mask_mov_ps( \
      (__m512)(nan), _mm512_cmp_ps_mask((__m512)(a), (__m512)(a), _CMP_ORD_Q), (__m512)(a)))
#define REAL_OR_float64(a, nan)          \
  ((float64_vector_t)_mm512_mask_mov_pd( \
      (__m512d)(nan), _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(a), _CMP_ORD_Q), (__m512d)(a)))
#else
#define REAL_OR_float32(a, nan) VECTOR_CHOSEN(float32_vector_t, a == a, a, nan)
#define REAL_OR_float64(a, nan) VECTOR_CHOSEN(float64_vector_t, a == a, a, nan)
#endif

#define REAL_OPERATIONS(prefix, word_t, default_nan)                                         \
  typedef VECTOR_OF(word_t) prefix##_word_t;                                                 \
  BASE_INLINE prefix##_vector_t prefix##_canonical(prefix##_vector_t a) {                    \
    prefix##_word_t nan = (prefix##_word_t){0} + default_nan;                                \
    return REAL_OR_##prefix(a, nan);                                                         \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_sum(prefix##_vector_t a, prefix##_vector_t b) {     \
    return a + b;                                                                            \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_product(prefix##_vector_t a, prefix##_vector_t b) { \
    return a * b;                                                                            \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_max(prefix##_vector_t a, prefix##_vector_t b) {     \
    return VECTOR_CHOSEN(prefix##_vector_t, (a > b) | (a != a), a, b);                       \
  }                                                                                          \
  BASE_INLINE prefix##_vector_t prefix##_min(prefix##_vector_t a, prefix##_vector_t b) {     \
    return VECTOR_CHOSEN(prefix##_vector_t, (a < b) | (a != a), a, b);                       \
  }

VECTOR_KIND(float32, float)
REAL_OPERATIONS(float32, uint32_t, 0x7fc00000u)
VECTOR_TEMPLATE(float32)

VECTOR_KIND(float64, double)
REAL_OPERATIONS(float64, uint64_t, 0x7ff8000000000000u)
VECTOR_TEMPLATE(float64)

#endif
