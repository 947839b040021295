/*
 * The conversions, written without branches so that the loops vectorise. A format of f fraction
 * bits and bias b is moved to float32's place by shifts and a change of bias; what would be a
 * denormal on either side is handled by adding or subtracting a power of two, so that the
 * processor's own rounding of a normal sum does the work.
 */
#include "device/host/narrow.h"

#include <coll.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/host/kernels.h"

#define FLOAT_FRACTION 23
#define FLOAT_BIAS 127
#define FLOAT_INFINITY 0x7f800000u
#define FLOAT_QUIET 0x00400000u
#define FLOAT_SIGN 0x80000000u

static inline float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* A narrow format. Everything is known at compile time: the functions below are inlined with it. */
typedef struct format {
  int width;         /* bits of an element */
  int fraction;      /* bits of its fraction */
  int bias;          /* of its exponent */
  bool has_infinity; /* else the pattern of all ones is the one NaN, and overflow saturates */
} format_t;

static const format_t float16 = {16, 10, 15, true};
static const format_t float8_e4m3 = {8, 3, 7, false};
static const format_t float8_e5m2 = {8, 2, 15, true};

/* Magnitude bits of the first pattern that is no finite number. */
static inline uint32_t first_special(format_t format) {
  uint32_t all_ones = (1u << (format.width - 1)) - 1;
  return format.has_infinity ? all_ones >> format.fraction << format.fraction : all_ones;
}

static inline float decode(uint32_t narrow, format_t format) {
  int shift = FLOAT_FRACTION - format.fraction;
  uint32_t rebias = (uint32_t)(FLOAT_BIAS - format.bias) << FLOAT_FRACTION;
  uint32_t sign = (narrow >> (format.width - 1)) << 31;
  uint32_t magnitude = narrow & ((1u << (format.width - 1)) - 1);
  uint32_t normal = (magnitude << shift) + rebias;

  /* With the exponent of the least normal number put before it, a denormal's fraction is too large
   * by that number exactly. */
  uint32_t least_normal = rebias + (1u << FLOAT_FRACTION);
  uint32_t subnormal =
      to_bits(from_bits((magnitude << shift) + least_normal) - from_bits(least_normal));

  uint32_t special = (magnitude << shift) | FLOAT_INFINITY;
  special |= magnitude == first_special(format) && format.has_infinity ? 0 : FLOAT_QUIET;

  uint32_t bits = magnitude >> format.fraction == 0 ? subnormal : normal;
  bits = magnitude >= first_special(format) ? special : bits;
  return from_bits(bits | sign);
}

static inline uint32_t encode(float value, format_t format) {
  int shift = FLOAT_FRACTION - format.fraction;
  uint32_t rebias = (uint32_t)(FLOAT_BIAS - format.bias) << FLOAT_FRACTION;
  uint32_t bits = to_bits(value);
  uint32_t sign = (bits & FLOAT_SIGN) >> (32 - format.width);
  uint32_t magnitude = bits & ~FLOAT_SIGN;

  /* Half of what is cut off, less one when the last kept bit is even, carries as it should: into
   * the exponent too, and beyond the largest number, where the special patterns begin. */
  uint32_t half = (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
  uint32_t normal = (magnitude - rebias + half) >> shift;

  /* A float32 whose last place is the narrow format's least number rounds a denormal there. */
  uint32_t anchor = (uint32_t)(FLOAT_BIAS - format.bias + 1 + shift) << FLOAT_FRACTION;
  uint32_t subnormal = to_bits(from_bits(magnitude) + from_bits(anchor)) - anchor;

  uint32_t most = first_special(format) - (format.has_infinity ? 0 : 1);
  uint32_t quiet = 1u << (format.fraction - 1);
  uint32_t nan =
      (first_special(format) | quiet) | ((magnitude >> shift) & ((1u << format.fraction) - 1));

  uint32_t narrow = normal > most ? most : normal;
  narrow = magnitude < rebias + (1u << FLOAT_FRACTION) ? subnormal : narrow;
  narrow = magnitude > FLOAT_INFINITY ? nan : narrow;
  return narrow | sign;
}

/* bfloat16 is the upper half of a float32: only the rounding is left to do. */
static inline float decode_upper(uint32_t narrow) {
  return from_bits(narrow << 16);
}

static inline uint32_t encode_upper(float value) {
  uint32_t bits = to_bits(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t nan = (bits | FLOAT_QUIET) >> 16;
  return (bits & ~FLOAT_SIGN) > FLOAT_INFINITY ? nan : rounded;
}

#define NARROW(prefix, type, decode_expression, encode_expression)                    \
  static void prefix##_decode(float *dst, const void *src, size_t count) {            \
    const type *narrow = src;                                                         \
    HOST_SIMD for (size_t i = 0; i < count; i++) dst[i] = decode_expression;          \
  }                                                                                   \
  static void prefix##_encode(void *dst, const float *src, size_t count) {            \
    type *narrow = dst;                                                               \
    HOST_SIMD for (size_t i = 0; i < count; i++) narrow[i] = (type)encode_expression; \
  }                                                                                   \
  const host_narrow_t host_##prefix = {sizeof(type), prefix##_decode, prefix##_encode}

NARROW(float16, uint16_t, decode(narrow[i], float16), encode(src[i], float16));
NARROW(bfloat16, uint16_t, decode_upper(narrow[i]), encode_upper(src[i]));
NARROW(float8_e4m3, uint8_t, decode(narrow[i], float8_e4m3), encode(src[i], float8_e4m3));
NARROW(float8_e5m2, uint8_t, decode(narrow[i], float8_e5m2), encode(src[i], float8_e5m2));
