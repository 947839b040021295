/*
 * Four lanes process every fourth word each, so that their multiplications overlap. A lane's step
 * is a bijection, so a change of a single word always changes the digest. The shift moves high bits
 * down to where the next multiplication spreads them.
 */
#include "libtrain/files/digest.h"

#include <string.h>

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
