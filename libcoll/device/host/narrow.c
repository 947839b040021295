/*
 * The loops of float16 and the float8 types in plain C, for any processor: what the vectors of
 * narrow_vector.c are held against.
 */
#include "device/host/narrow.h"

#include "device/host/kernels.h"
#include "device/host/real.h"

#define PAIR(prefix, type)                                                                        \
  HOST_INLINE void prefix##_pair(void *dst, bool to_running, const void *left, bool from_running, \
                                 const void *right, size_t count, float (*op)(float, float)) {    \
    const type *as = left, *bs = right;                                                           \
    const float *running_as = left;                                                               \
    type *out = dst;                                                                              \
    float *running_out = dst;                                                                     \
    HOST_SIMD for (size_t i = 0; i < count; i++) {                                                \
      float result =                                                                              \
          op(from_running ? running_as[i] : prefix##_decode(as[i]), prefix##_decode(bs[i]));      \
      if (to_running) {                                                                           \
        running_out[i] = result;                                                                  \
      } else {                                                                                    \
        out[i] = (type)prefix##_encode(result);                                                   \
      }                                                                                           \
    }                                                                                             \
  }

#define NARROW_KERNELS(prefix, type)                                                        \
  PAIR(prefix, type)                                                                        \
  HOST_OWN_LOOPS(prefix##_sum, prefix##_pair, float32_sum)                                  \
  HOST_OWN_LOOPS(prefix##_product, prefix##_pair, float32_product)                          \
  HOST_OWN_LOOPS(prefix##_max, prefix##_pair, float32_max)                                  \
  HOST_OWN_LOOPS(prefix##_min, prefix##_pair, float32_min)                                  \
  HOST_SCALE_LOOP(prefix##_scale, type,                                                     \
                  prefix##_encode(float32_product(prefix##_decode(s), prefix##_decode(a)))) \
  HOST_DIVIDE_LOOP(prefix##_divide, type, float,                                            \
                   prefix##_encode(float32_quotient(prefix##_decode(a), d)))                \
  HOST_KERNELS(prefix, type, float, HOST_OWN_STEPS)

NARROW_KERNELS(float16, uint16_t);
NARROW_KERNELS(float8_e4m3, uint8_t);
NARROW_KERNELS(float8_e5m2, uint8_t);
