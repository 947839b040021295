/* Converts block by block through a small buffer, in the direction that never overwrites unread
 * input. */
#include "libtrain/parallel/bfloat16.h"

#include <string.h>

#include "libtrain/ops/vector.h"

#define BLOCK ((size_t)256)

TRAIN_VECTORIZED
static void narrow_block(const uint32_t *restrict wide, uint16_t *restrict narrow) {
  for (size_t i = 0; i < BLOCK; i++) {
    uint32_t bits = wide[i];
    uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    uint32_t quiet = bits | 0x400000u; /* set the quiet bit, so that truncating a NaN does not give
                                        * infinity */
    narrow[i] = (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
  }
}

TRAIN_VECTORIZED
static void widen_block(const uint16_t *restrict narrow, uint32_t *restrict wide) {
  for (size_t i = 0; i < BLOCK; i++) wide[i] = (uint32_t)narrow[i] << 16;
}

void train_bfloat16_narrow(const float *wide, size_t count, uint16_t *narrow) {
  uint32_t read[BLOCK] = {0};
  uint16_t made[BLOCK];
  for (size_t at = 0; at < count; at += BLOCK) {
    size_t here = count - at < BLOCK ? count - at : BLOCK;
    memcpy(read, wide + at, here * sizeof *wide);
    narrow_block(read, made);
    memcpy(narrow + at, made, here * sizeof *narrow);
  }
}

void train_bfloat16_widen(const uint16_t *narrow, size_t count, float *wide) {
  uint16_t read[BLOCK] = {0};
  uint32_t made[BLOCK];
  for (size_t end = count; end > 0;) {
    size_t here = (end - 1) % BLOCK + 1, at = end - here;
    memcpy(read, narrow + at, here * sizeof *narrow);
    widen_block(read, made);
    memcpy(wide + at, made, here * sizeof *wide);
    end = at;
  }
}
