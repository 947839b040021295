/*
 * float16, bfloat16 and the two float8 types to float32 and back. Decoding is exact. Encoding
 * rounds to nearest, ties to even, from any float32 (assuming the default rounding mode), whether
 * or not the processor flushes denormals.
 *
 * Overflow: float16, bfloat16 and e5m2 go to infinity. e4m3 has none: overflow and infinities
 * saturate to +-448 (the OCP specification's saturating mode). A NaN stays a quiet NaN of the same
 * sign and, where there is room, the same leading payload bits, as processors convert it.
 *
 * Formats: IEEE 754-2019 binary16; "OCP 8-bit Floating Point Specification (OFP8)", rev. 1.0.
 */
#ifndef DEVICE_HOST_NARROW_H
#define DEVICE_HOST_NARROW_H

#include <stddef.h>

/* dst and src do not overlap. Narrow elements are aligned to their size. */
typedef void (*host_decode_t)(float *dst, const void *src, size_t count);
typedef void (*host_encode_t)(void *dst, const float *src, size_t count);

typedef struct host_narrow {
  size_t bytes; /* of one narrow element */
  host_decode_t decode;
  host_encode_t encode;
} host_narrow_t;

extern const host_narrow_t host_float16, host_bfloat16, host_float8_e4m3, host_float8_e5m2;

#endif
