/* The loops of float32 and float64. */
#include "device/host/real.h"

#include "device/host/kernels.h"

#define PAIR(prefix, type, op) HOST_PAIR_LOOP(prefix##_##op##_loop, type, prefix##_##op(a, b))

#define REAL_KERNELS(prefix, type)                                       \
  PAIR(prefix, type, sum)                                                \
  PAIR(prefix, type, product)                                            \
  PAIR(prefix, type, max)                                                \
  PAIR(prefix, type, min)                                                \
  HOST_SCALE_LOOP(prefix##_scale, type, prefix##_product(s, a))          \
  HOST_DIVIDE_LOOP(prefix##_divide, type, type, prefix##_quotient(a, d)) \
  HOST_KERNELS(prefix, type, type, HOST_SAME_STEPS)

REAL_KERNELS(float32, float);
REAL_KERNELS(float64, double);
