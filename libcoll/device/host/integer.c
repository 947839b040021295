/*
 * The integer loops. Sums and products are taken in the unsigned type of the same width, where
 * wrapping is defined, and come back as two's complement.
 */
#include <stdint.h>

#include "device/host/kernels.h"

/* 8-bit operands are promoted to int, which holds their sum and product. */
#define INTEGER_KERNELS(prefix, type, word, wide)               \
  HOST_PAIR_LOOP(prefix##_sum_loop, type, (word)a + (word)b)    \
  HOST_PAIR_LOOP(prefix##_product_loop, type, (word)a *(word)b) \
  HOST_PAIR_LOOP(prefix##_max_loop, type, a > b ? a : b)        \
  HOST_PAIR_LOOP(prefix##_min_loop, type, a < b ? a : b)        \
  HOST_SCALE_LOOP(prefix##_scale, type, (word)s *(word)a)       \
  HOST_DIVIDE_LOOP(prefix##_divide, type, wide, (wide)a / d)    \
  HOST_KERNELS(prefix, type, type, HOST_SAME_STEPS)

INTEGER_KERNELS(int8, int8_t, uint8_t, int);
INTEGER_KERNELS(uint8, uint8_t, uint8_t, int);
INTEGER_KERNELS(int32, int32_t, uint32_t, int32_t);
INTEGER_KERNELS(uint32, uint32_t, uint32_t, uint32_t);
INTEGER_KERNELS(int64, int64_t, uint64_t, int64_t);
INTEGER_KERNELS(uint64, uint64_t, uint64_t, uint64_t);
