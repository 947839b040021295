/*
 * The operations on vectors of float32 and float64. Which of two NaNs an operation returns is up to
 * the processor, and to the compiler, which may swap the operands: so a result that is a NaN
 * becomes the one default NaN, whatever went in, and equal values give equal bits everywhere. Until
 * then any NaN will do, as all operations keep one. Of two equal zeros MAX and MIN take the right
 * one.
 */
#ifndef DEVICE_HOST_REAL_H
#define DEVICE_HOST_REAL_H

#include "device/host/vector.h"

#define REAL_OPERATIONS(prefix, word_t, default_nan)                                          \
  typedef VECTOR_OF(word_t) prefix##_word_t;                                                  \
  BASE_INLINE prefix##_vector_t prefix##_settled(prefix##_vector_t a) {                       \
    prefix##_word_t nan = (prefix##_word_t){0} + default_nan;                                 \
    return VECTOR_CHOSEN(prefix##_vector_t, a == a, a, nan);                                  \
  }                                                                                           \
  BASE_INLINE prefix##_vector_t prefix##_sum(prefix##_vector_t a, prefix##_vector_t b) {      \
    return a + b;                                                                             \
  }                                                                                           \
  BASE_INLINE prefix##_vector_t prefix##_product(prefix##_vector_t a, prefix##_vector_t b) {  \
    return a * b;                                                                             \
  }                                                                                           \
  BASE_INLINE prefix##_vector_t prefix##_quotient(prefix##_vector_t a, prefix##_vector_t b) { \
    return a / b;                                                                             \
  }                                                                                           \
  BASE_INLINE prefix##_vector_t prefix##_max(prefix##_vector_t a, prefix##_vector_t b) {      \
    return VECTOR_CHOSEN(prefix##_vector_t, (a > b) | (a != a), a, b);                        \
  }                                                                                           \
  BASE_INLINE prefix##_vector_t prefix##_min(prefix##_vector_t a, prefix##_vector_t b) {      \
    return VECTOR_CHOSEN(prefix##_vector_t, (a < b) | (a != a), a, b);                        \
  }

VECTOR_KIND(float32, float)
REAL_OPERATIONS(float32, uint32_t, 0x7fc00000u)
VECTOR_TEMPLATE(float32)

VECTOR_KIND(float64, double)
REAL_OPERATIONS(float64, uint64_t, 0x7ff8000000000000u)
VECTOR_TEMPLATE(float64)

#endif
