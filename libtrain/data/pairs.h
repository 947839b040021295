/*
 * A map from pairs of neighbouring tokens to numbers: the rank of a merge, or the counter of a
 * pair while merges are learned. A hash table of eight bytes an entry.
 */
#ifndef LIBTRAIN_DATA_PAIRS_H
#define LIBTRAIN_DATA_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_PAIR_NONE UINT32_MAX

typedef struct train_pair_slot {
  uint32_t pair, number; /* number + 1; 0 for an empty slot */
} train_pair_slot_t;

/* All zero is the empty map. */
typedef struct train_pairs {
  size_t count;
  train_pair_slot_t *slots; /* [slot_count], a power of two, at most half of them taken */
  size_t slot_count;
} train_pairs_t;

/* Two ids as one number, in the order of pairs. */
static inline uint32_t train_pair(uint32_t left, uint32_t right) {
  return left << 16 | right;
}

/* The number of the pair, TRAIN_PAIR_NONE when the map does not have it. */
static inline uint32_t train_pairs_find(const train_pairs_t *pairs, uint32_t pair) {
  if (pairs->slot_count == 0) return TRAIN_PAIR_NONE;
  size_t mask = pairs->slot_count - 1;
  size_t at = (size_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
  while (pairs->slots[at].number != 0 && pairs->slots[at].pair != pair) at = (at + 1) & mask;
  return pairs->slots[at].number - 1;
}

/* Adds a pair that the map does not have, with a number below TRAIN_PAIR_NONE. */
coll_status_t train_pairs_add(train_pairs_t *pairs, uint32_t pair, uint32_t number);

void train_pairs_free(train_pairs_t *pairs);

#endif
