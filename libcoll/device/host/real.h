/*
 * The operations on float32 and float64. Which of two NaNs an operation returns is up to the
 * processor, and to the compiler, which may swap the operands: so a NaN comes out as the one
 * default NaN, whatever went in, and equal values give equal bits everywhere. Of two equal zeros
 * MIN and MAX take the right one.
 */
#ifndef DEVICE_HOST_REAL_H
#define DEVICE_HOST_REAL_H

#include <math.h>

#define HOST_REAL_OPERATIONS(prefix, type)                \
  static inline type prefix##_sum(type a, type b) {       \
    return a + b == a + b ? a + b : (type)NAN;            \
  }                                                       \
  static inline type prefix##_product(type a, type b) {   \
    return a * b == a * b ? a * b : (type)NAN;            \
  }                                                       \
  static inline type prefix##_max(type a, type b) {       \
    return isunordered(a, b) ? (type)NAN : a > b ? a : b; \
  }                                                       \
  static inline type prefix##_min(type a, type b) {       \
    return isunordered(a, b) ? (type)NAN : a < b ? a : b; \
  }                                                       \
  static inline type prefix##_quotient(type a, type b) {  \
    return a / b == a / b ? a / b : (type)NAN;            \
  }

HOST_REAL_OPERATIONS(float32, float)
HOST_REAL_OPERATIONS(float64, double)

#endif
