/* A small seeded generator (splitmix64), identical on all platforms, good enough to choose
 * schedules. */
#ifndef VERIFY_TEST_RANDOM_H
#define VERIFY_TEST_RANDOM_H

#include <stdint.h>

static inline uint64_t random_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static inline uint64_t random_next(uint64_t *state) {
  return random_mix(*state += 0x9e3779b97f4a7c15u);
}

/* 0..limit-1; limit > 0. */
static inline int32_t random_below(uint64_t *state, int32_t limit) {
  return (int32_t)(random_next(state) % (uint64_t)limit);
}

#endif
