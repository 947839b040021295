/*
 * A priority queue of pairs of numbers, the least one first. Entries are never changed in place:
 * who has a newer one adds it, and knows an outdated one when it comes out.
 */
#ifndef LIBTRAIN_DATA_HEAP_H
#define LIBTRAIN_DATA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_heap_entry {
  uint64_t key; /* ordered by this, */
  uint32_t tie; /* then by this */
  uint32_t value;
} train_heap_entry_t;

/* All zero is the empty heap. */
typedef struct train_heap {
  train_heap_entry_t *entries;
  size_t count, capacity;
} train_heap_t;

coll_status_t train_heap_push(train_heap_t *heap, train_heap_entry_t entry);

/* Takes the least entry out; false when there is none. */
bool train_heap_pop(train_heap_t *heap, train_heap_entry_t *entry);

void train_heap_free(train_heap_t *heap);

#endif
