/*
 * The float32 and float64 loops. MIN and MAX keep a NaN from either side, which the bare comparison
 * would lose on the left; of two equal zeros they take the right one.
 */
#include <coll.h>

#include "device/host/kernels.h"

#define REAL_KERNELS(prefix, type)                                 \
  HOST_PAIR_LOOP(prefix##_sum, type, a + b)                        \
  HOST_PAIR_LOOP(prefix##_product, type, a *b)                     \
  HOST_PAIR_LOOP(prefix##_max, type, ((a > b) | (a != a)) ? a : b) \
  HOST_PAIR_LOOP(prefix##_min, type, ((a < b) | (a != a)) ? a : b) \
  HOST_SCALE_LOOP(prefix##_scale, type, s *a)                      \
  HOST_DIVIDE_LOOP(prefix##_divide, type, type)                    \
  HOST_KERNELS(prefix, type)

REAL_KERNELS(float32, float);
REAL_KERNELS(float64, double);
