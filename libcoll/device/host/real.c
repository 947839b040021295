/* Kernels of float32 and float64. */
#include "device/host/real.h"

#include <math.h>

#include "device/host/kernels.h"

#define REAL_KERNELS(prefix, element_t)                                            \
  VECTOR_FORMAT(prefix)                                                            \
  VECTOR_FOLDS(prefix, element_t, prefix)                                          \
  VECTOR_SCALE(prefix, element_t, s *a == s * a ? s * a : (element_t)NAN)          \
  VECTOR_AVERAGE(prefix, element_t, prefix)                                        \
  VECTOR_DIVIDE(prefix, element_t, element_t, device_average_of(operands).divisor, \
                a / d == a / d ? a / d : (element_t)NAN)                           \
  HOST_KERNELS(prefix, element_t, HOST_FLOAT_FOLDS, prefix##_divide)

REAL_KERNELS(float32, float);
REAL_KERNELS(float64, double);
