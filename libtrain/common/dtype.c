/* Overlapping arrays are converted block by block through a small buffer, in the direction that
 * never overwrites unread input. */
#include "libtrain/common/dtype.h"

#include <stdbool.h>
#include <string.h>

#include "libtrain/common/vector.h"

#define BLOCK ((size_t)256)

const char *train_dtype_name(train_dtype_t dtype) {
  static const char *const names[] = {"float32", "bfloat16", "float16"};
  return names[dtype];
}

/* ---- one element, on its bits ---- */

static inline uint16_t to_bfloat16(uint32_t bits) {
  uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  uint32_t quiet = bits | 0x400000u; /* set the quiet bit, so that truncating a NaN does not give
                                      * infinity */
  return (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

static inline uint32_t from_bfloat16(uint16_t narrow) {
  return (uint32_t)narrow << 16;
}

/* Below 2^-14, adding 0.5 aligns the significand to float16's subnormal step 2^-24 and rounds it;
 * from there on the significand is rounded and the exponent's bias changes from 127 to 15. */
static inline uint16_t to_float16(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  float value, half = 0.5f;
  uint32_t small;
  memcpy(&value, &magnitude, sizeof value);
  value += half;
  memcpy(&small, &value, sizeof small);
  small -= 0x3f000000u;
  uint32_t rounded = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
  rounded = rounded < 0x7c00u ? rounded : 0x7c00u; /* too large, or infinite */
  uint32_t result = magnitude < 0x38800000u ? small : rounded;
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return (uint16_t)(sign | result);
}

/* Multiplying by 2^112 moves the exponent's bias from 15 to 127, also for subnormals. */
static inline uint32_t from_float16(uint16_t narrow) {
  uint32_t sign = (uint32_t)(narrow & 0x8000u) << 16, magnitude = (narrow & 0x7fffu) << 13, bits;
  float value;
  memcpy(&value, &magnitude, sizeof value);
  value *= 0x1p112f;
  memcpy(&bits, &value, sizeof bits);
  bits |= magnitude >= 0x0f800000u ? 0x7f800000u : 0; /* infinite or NaN */
  return sign | bits;
}

/* ---- arrays ---- */

TRAIN_VECTORIZED
static void narrow_to_bfloat16(const uint32_t *restrict wide, size_t count,
                               uint16_t *restrict narrow) {
  for (size_t i = 0; i < count; i++) narrow[i] = to_bfloat16(wide[i]);
}

TRAIN_VECTORIZED
static void narrow_to_float16(const uint32_t *restrict wide, size_t count,
                              uint16_t *restrict narrow) {
  for (size_t i = 0; i < count; i++) narrow[i] = to_float16(wide[i]);
}

TRAIN_VECTORIZED
static void widen_bfloat16(const uint16_t *restrict narrow, size_t count, uint32_t *restrict wide) {
  for (size_t i = 0; i < count; i++) wide[i] = from_bfloat16(narrow[i]);
}

TRAIN_VECTORIZED
static void widen_float16(const uint16_t *restrict narrow, size_t count, uint32_t *restrict wide) {
  for (size_t i = 0; i < count; i++) wide[i] = from_float16(narrow[i]);
}

static void narrow_apart(train_dtype_t dtype, const void *wide, size_t count, void *narrow) {
  if (dtype == TRAIN_BFLOAT16) {
    narrow_to_bfloat16(wide, count, narrow);
  } else {
    narrow_to_float16(wide, count, narrow);
  }
}

static void widen_apart(train_dtype_t dtype, const void *narrow, size_t count, void *wide) {
  if (dtype == TRAIN_BFLOAT16) {
    widen_bfloat16(narrow, count, wide);
  } else {
    widen_float16(narrow, count, wide);
  }
}

static bool overlap(const void *wide, const void *narrow, size_t count) {
  uintptr_t a = (uintptr_t)wide, b = (uintptr_t)narrow;
  return a < b + count * sizeof(uint16_t) && b < a + count * sizeof(float);
}

void train_dtype_narrow(train_dtype_t dtype, const float *wide, size_t count, void *narrow) {
  uint32_t read[BLOCK];
  if (dtype == TRAIN_FLOAT32) {
    memmove(narrow, wide, count * sizeof *wide);
    return;
  }
  if (!overlap(wide, narrow, count)) {
    narrow_apart(dtype, wide, count, narrow);
    return;
  }
  for (size_t at = 0; at < count; at += BLOCK) {
    size_t here = count - at < BLOCK ? count - at : BLOCK;
    memcpy(read, wide + at, here * sizeof *wide);
    narrow_apart(dtype, read, here, (uint16_t *)narrow + at);
  }
}

void train_dtype_widen(train_dtype_t dtype, const void *narrow, size_t count, float *wide) {
  uint16_t read[BLOCK];
  if (dtype == TRAIN_FLOAT32) {
    memmove(wide, narrow, count * sizeof *wide);
    return;
  }
  if (!overlap(wide, narrow, count)) {
    widen_apart(dtype, narrow, count, wide);
    return;
  }
  for (size_t end = count; end > 0;) {
    size_t here = (end - 1) % BLOCK + 1, at = end - here;
    memcpy(read, (const uint16_t *)narrow + at, here * sizeof *read);
    widen_apart(dtype, read, here, wide + at);
    end = at;
  }
}
