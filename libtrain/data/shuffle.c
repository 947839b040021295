/* A Feistel network of six rounds. Its domain has an even number of bits, so at most four times the
 * number of windows, and cycle walking takes at most four steps on average. */
#include "libtrain/data/shuffle.h"

#include <assert.h>

#include "libtrain/common/random.h"

#define ROUNDS 6

/* A permutation of the integers of 2 * bits bits. */
static uint64_t permute(uint64_t key, unsigned bits, uint64_t value) {
  uint64_t mask = (UINT64_C(1) << bits) - 1, left = value >> bits, right = value & mask;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint64_t next = left ^ (train_random_bits(key + round, TRAIN_RANDOM_BATCHES, right) & mask);
    left = right;
    right = next;
  }
  return left << bits | right;
}

uint64_t train_shuffle_window(uint64_t seed, uint64_t windows, uint64_t draw) {
  assert(windows > 0);
  uint64_t key = train_random_bits(seed, TRAIN_RANDOM_BATCHES, draw / windows);
  unsigned bits = 1;
  while (bits < 32 && UINT64_C(1) << (2 * bits) < windows) bits++;
  uint64_t window = draw % windows;
  do {
    window = permute(key, bits, window);
  } while (window >= windows);
  return window;
}
