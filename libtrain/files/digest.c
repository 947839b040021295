/*
 * Four lanes process every fourth word each, so that their multiplications overlap. A lane's step
 * is a bijection, so a change of a single word always changes the digest. The shift moves high bits
 * down to where the next multiplication spreads them.
 */
#include "libtrain/files/digest.h"

#include <string.h>

#include "libtrain/common/vector.h"

#define LANES 4

static uint64_t step(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * 0x9e3779b97f4a7c15u;
  return lane ^ (lane >> 32);
}

static void mix_block(uint64_t lanes[LANES], const unsigned char *block) {
  uint64_t words[LANES];
  memcpy(words, block, sizeof words);
  for (int i = 0; i < LANES; i++) lanes[i] = step(lanes[i], words[i]);
}

uint64_t train_digest(uint64_t digest, const void *bytes, size_t count) {
  const unsigned char *from = bytes;
  const size_t block = LANES * sizeof(uint64_t);
  uint64_t lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = step(digest, (uint64_t)i + 1);
  size_t left = count;
  for (; left >= block; left -= block, from += block) mix_block(lanes, from);
  unsigned char rest[LANES * sizeof(uint64_t)] = {0};
  if (left > 0) memcpy(rest, from, left);
  mix_block(lanes, rest);
  uint64_t all = step(digest, count);
  for (int i = 0; i < LANES; i++) all = step(step(all, lanes[i]), 0);
  return all;
}

/* SplitMix64 (Steele, Lea, Flood 2014), whose state for index i has the bits of the element added
 * to it. Its output function mixes well enough that the sum of two outputs depends on which bits
 * had which index. It has no branches and no dependence between elements, so compilers vectorize
 * it. */
static inline uint64_t hash(uint64_t index, uint32_t bits) {
  uint64_t z = index * 0x9e3779b97f4a7c15u + bits;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

TRAIN_VECTORIZED uint64_t train_digest_elements(uint64_t first, const float *values, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    sum += hash(first + i + 1, bits);
  }
  return sum;
}
