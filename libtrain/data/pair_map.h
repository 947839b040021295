/*
 * A hash map from pairs of adjacent tokens to 32-bit values: the rank of a merge, or the index of a
 * pair's counter during training. Eight bytes per entry.
 */
#ifndef LIBTRAIN_DATA_PAIR_MAP_H
#define LIBTRAIN_DATA_PAIR_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_PAIR_NONE UINT32_MAX

typedef struct train_pair_slot {
  uint32_t pair, index; /* value + 1; 0 for an empty slot */
} train_pair_slot_t;

/* All zero is the empty map. */
typedef struct train_pair_map {
  size_t count;
  train_pair_slot_t *slots; /* [slot_count], a power of two, at most half full */
  size_t slot_count;
} train_pair_map_t;

/* Packs two ids into a key; keys sort like the pairs. */
static inline uint32_t train_pair_key(uint32_t left, uint32_t right) {
  return left << 16 | right;
}

/* The value of the pair, or TRAIN_PAIR_NONE. */
static inline uint32_t train_pair_map_find(const train_pair_map_t *pairs, uint32_t pair) {
  if (pairs->slot_count == 0) return TRAIN_PAIR_NONE;
  size_t mask = pairs->slot_count - 1;
  size_t at = (size_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
  while (pairs->slots[at].index != 0 && pairs->slots[at].pair != pair) at = (at + 1) & mask;
  return pairs->slots[at].index - 1;
}

/* Adds a pair that is not in the map. The value is below TRAIN_PAIR_NONE. */
coll_status_t train_pair_map_add(train_pair_map_t *pairs, uint32_t pair, uint32_t index);

void train_pair_map_free(train_pair_map_t *pairs);

#endif
