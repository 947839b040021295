/*
 * Conversion of float16, bfloat16 and the two float8 types to float32 and back, one element at a
 * time and without branches, so that loops around it vectorise. Decoding is exact. Encoding rounds
 * to nearest, ties to even, from any float32 (in the default rounding mode), whether or not the
 * processor flushes denormals.
 *
 * A format with f fraction bits and bias b is converted by shifts and a change of bias. Denormals
 * on either side are handled by adding or subtracting a power of two, so that the processor's
 * rounding of a normal sum does the work.
 *
 * Overflow: float16, bfloat16 and e5m2 give infinity. e4m3 has none: overflow and infinities
 * saturate to +-448 (the OCP specification's saturating mode). A NaN stays a quiet NaN of the same
 * sign and, where bits suffice, the same leading payload bits, as in hardware conversions.
 *
 * Formats: IEEE 754-2019 binary16; "OCP 8-bit Floating Point Specification (OFP8)", rev. 1.0.
 */
#ifndef DEVICE_HOST_NARROW_H
#define DEVICE_HOST_NARROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef NARROW_FUNCTION /* device code defines it, for the kernel of device/cuda */
#define NARROW_FUNCTION static inline
#endif

#define NARROW_FLOAT_FRACTION 23
#define NARROW_FLOAT_BIAS 127
#define NARROW_FLOAT_INFINITY 0x7f800000u
#define NARROW_FLOAT_QUIET 0x00400000u
#define NARROW_FLOAT_SIGN 0x80000000u

NARROW_FUNCTION float narrow_float_from(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

NARROW_FUNCTION uint32_t narrow_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* A narrow format. All fields are compile-time constants: the functions below are inlined with
 * them. */
typedef struct narrow_format {
  int width;         /* bits of an element */
  int fraction;      /* bits of the fraction */
  int bias;          /* exponent bias */
  bool has_infinity; /* else the pattern of all ones is the one NaN, and overflow saturates */
} narrow_format_t;

#define NARROW_FLOAT16 ((narrow_format_t){16, 10, 15, true})
#define NARROW_FLOAT8_E4M3 ((narrow_format_t){8, 3, 7, false})
#define NARROW_FLOAT8_E5M2 ((narrow_format_t){8, 2, 15, true})

/* Magnitude bits of the first pattern that is not a finite number. */
NARROW_FUNCTION uint32_t narrow_first_special(narrow_format_t format) {
  uint32_t all_ones = (1u << (format.width - 1)) - 1;
  return format.has_infinity ? all_ones >> format.fraction << format.fraction : all_ones;
}

NARROW_FUNCTION float narrow_decode(uint32_t narrow, narrow_format_t format) {
  int shift = NARROW_FLOAT_FRACTION - format.fraction;
  uint32_t rebias = (uint32_t)(NARROW_FLOAT_BIAS - format.bias) << NARROW_FLOAT_FRACTION;
  uint32_t sign = (narrow >> (format.width - 1)) << 31;
  uint32_t magnitude = narrow & ((1u << (format.width - 1)) - 1);
  uint32_t normal = (magnitude << shift) + rebias;

  /* With the exponent of the smallest normal number in front of it, a denormal's fraction is too
   * large by exactly that number, which is subtracted. */
  uint32_t least_normal = rebias + (1u << NARROW_FLOAT_FRACTION);
  uint32_t subnormal = narrow_float_bits(narrow_float_from((magnitude << shift) + least_normal) -
                                         narrow_float_from(least_normal));

  uint32_t special = (magnitude << shift) | NARROW_FLOAT_INFINITY;
  special |=
      magnitude == narrow_first_special(format) && format.has_infinity ? 0 : NARROW_FLOAT_QUIET;

  uint32_t bits = magnitude >> format.fraction == 0 ? subnormal : normal;
  bits = magnitude >= narrow_first_special(format) ? special : bits;
  return narrow_float_from(bits | sign);
}

NARROW_FUNCTION uint32_t narrow_encode(float value, narrow_format_t format) {
  int shift = NARROW_FLOAT_FRACTION - format.fraction;
  uint32_t rebias = (uint32_t)(NARROW_FLOAT_BIAS - format.bias) << NARROW_FLOAT_FRACTION;
  uint32_t bits = narrow_float_bits(value);
  uint32_t sign = (bits & NARROW_FLOAT_SIGN) >> (32 - format.width);
  uint32_t magnitude = bits & ~NARROW_FLOAT_SIGN;

  /* Adding half of what is cut off, less one if the last remaining bit is even, carries correctly:
   * also into the exponent, and beyond the largest number, where the special patterns begin. */
  uint32_t half = (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
  uint32_t normal = (magnitude - rebias + half) >> shift;

  /* A float32 whose last bit has the value of the narrow format's smallest number rounds a denormal
   * to it. */
  uint32_t anchor = (uint32_t)(NARROW_FLOAT_BIAS - format.bias + 1 + shift)
                    << NARROW_FLOAT_FRACTION;
  uint32_t subnormal =
      narrow_float_bits(narrow_float_from(magnitude) + narrow_float_from(anchor)) - anchor;

  uint32_t most = narrow_first_special(format) - (format.has_infinity ? 0 : 1);
  uint32_t quiet = 1u << (format.fraction - 1);
  uint32_t nan = (narrow_first_special(format) | quiet) |
                 ((magnitude >> shift) & ((1u << format.fraction) - 1));

  uint32_t narrow = normal > most ? most : normal;
  narrow = magnitude < rebias + (1u << NARROW_FLOAT_FRACTION) ? subnormal : narrow;
  narrow = magnitude > NARROW_FLOAT_INFINITY ? nan : narrow;
  return narrow | sign;
}

NARROW_FUNCTION float float16_decode(uint32_t narrow) {
  return narrow_decode(narrow, NARROW_FLOAT16);
}

NARROW_FUNCTION uint32_t float16_encode(float value) {
  return narrow_encode(value, NARROW_FLOAT16);
}

NARROW_FUNCTION float float8_e4m3_decode(uint32_t narrow) {
  return narrow_decode(narrow, NARROW_FLOAT8_E4M3);
}

NARROW_FUNCTION uint32_t float8_e4m3_encode(float value) {
  return narrow_encode(value, NARROW_FLOAT8_E4M3);
}

NARROW_FUNCTION float float8_e5m2_decode(uint32_t narrow) {
  return narrow_decode(narrow, NARROW_FLOAT8_E5M2);
}

NARROW_FUNCTION uint32_t float8_e5m2_encode(float value) {
  return narrow_encode(value, NARROW_FLOAT8_E5M2);
}

/* bfloat16 is the upper half of a float32: only rounding is needed. */
NARROW_FUNCTION float bfloat16_decode(uint32_t narrow) {
  return narrow_float_from(narrow << 16);
}

NARROW_FUNCTION uint32_t bfloat16_encode(float value) {
  uint32_t bits = narrow_float_bits(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t nan = (bits | NARROW_FLOAT_QUIET) >> 16;
  return (bits & ~NARROW_FLOAT_SIGN) > NARROW_FLOAT_INFINITY ? nan : rounded;
}

#endif
