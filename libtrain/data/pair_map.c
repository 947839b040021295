/* Linear probing; the table doubles when it is half full. */
#include "libtrain/data/pair_map.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

#define MIN_SLOTS 1024

static void insert(train_pair_slot_t *slots, size_t slot_count, train_pair_slot_t entry) {
  size_t mask = slot_count - 1;
  size_t at = (size_t)(entry.pair * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
  while (slots[at].index != 0) at = (at + 1) & mask;
  slots[at] = entry;
}

static coll_status_t double_slots(train_pair_map_t *pairs) {
  size_t new_count = pairs->slot_count > 0 ? 2 * pairs->slot_count : MIN_SLOTS;
  void *memory;
  COLL_TRY(base_alloc(new_count, sizeof *pairs->slots, "a table of pairs", &memory));
  for (size_t i = 0; i < pairs->slot_count; i++) {
    if (pairs->slots[i].index != 0) insert(memory, new_count, pairs->slots[i]);
  }
  free(pairs->slots);
  pairs->slots = memory;
  pairs->slot_count = new_count;
  return COLL_OK;
}

coll_status_t train_pair_map_add(train_pair_map_t *pairs, uint32_t pair, uint32_t index) {
  assert(index < TRAIN_PAIR_NONE && train_pair_map_find(pairs, pair) == TRAIN_PAIR_NONE);
  if (2 * (pairs->count + 1) > pairs->slot_count) COLL_TRY(double_slots(pairs));
  insert(pairs->slots, pairs->slot_count, (train_pair_slot_t){pair, index + 1});
  pairs->count++;
  return COLL_OK;
}

void train_pair_map_free(train_pair_map_t *pairs) {
  free(pairs->slots);
  *pairs = (train_pair_map_t){0};
}
