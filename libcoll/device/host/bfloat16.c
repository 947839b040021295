/*
 * The loops of bfloat16, which is the upper half of a float32. Elements are taken two at a time, as
 * one 32-bit word: either half becomes a float32 where it stands, by a shift or a mask, so nothing
 * is widened, narrowed or shuffled. A running result keeps the low halves' floats first, then the
 * high halves', then that of an element without a partner.
 */
#include "device/host/kernels.h"
#include "device/host/narrow.h"
#include "device/host/real.h"

/* Two elements, aligned as one. Which of them is the low half depends on the byte order, but both
 * are treated alike. */
typedef uint32_t word_t __attribute__((aligned(2), may_alias));

#define HIGH 0xffff0000u

static inline float low(uint32_t word) {
  return narrow_float_from(word << 16);
}

static inline float high(uint32_t word) {
  return narrow_float_from(word & HIGH);
}

/* The nearest bfloat16, ties to even, is the upper half of this. The default NaN stays itself. */
static inline uint32_t rounded(float value) {
  uint32_t bits = narrow_float_bits(value);
  return bits + 0x7fff + ((bits >> 16) & 1);
}

static inline uint32_t joined(float low_value, float high_value) {
  return rounded(low_value) >> 16 | (rounded(high_value) & HIGH);
}

HOST_INLINE void pair(void *dst, bool to_running, const void *left, bool from_running,
                      const void *right, size_t count, float (*op)(float, float)) {
  size_t words = count / 2;
  const word_t *as = left, *bs = right;
  const float *low_as = left, *high_as = low_as + words;
  word_t *out = dst;
  float *low_out = dst, *high_out = low_out + words;
  HOST_SIMD for (size_t i = 0; i < words; i++) {
    float low_result = op(from_running ? low_as[i] : low(as[i]), low(bs[i]));
    float high_result = op(from_running ? high_as[i] : high(as[i]), high(bs[i]));
    if (to_running) {
      low_out[i] = low_result;
      high_out[i] = high_result;
    } else {
      out[i] = joined(low_result, high_result);
    }
  }
  if (count % 2 == 0) return;
  size_t last = count - 1;
  float result = op(from_running ? low_as[last] : bfloat16_decode(((const uint16_t *)left)[last]),
                    bfloat16_decode(((const uint16_t *)right)[last]));
  if (to_running) {
    low_out[last] = result;
  } else {
    ((uint16_t *)dst)[last] = (uint16_t)bfloat16_encode(result);
  }
}

HOST_OWN_LOOPS(bfloat16_sum, pair, float32_sum)
HOST_OWN_LOOPS(bfloat16_product, pair, float32_product)
HOST_OWN_LOOPS(bfloat16_max, pair, float32_max)
HOST_OWN_LOOPS(bfloat16_min, pair, float32_min)
HOST_SCALE_LOOP(bfloat16_scale, uint16_t,
                bfloat16_encode(float32_product(bfloat16_decode(s), bfloat16_decode(a))))
HOST_DIVIDE_LOOP(bfloat16_divide, uint16_t, float,
                 bfloat16_encode(float32_quotient(bfloat16_decode(a), d)))
HOST_KERNELS(bfloat16, uint16_t, float, HOST_OWN_STEPS);
