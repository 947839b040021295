/*
 * A priority queue of integer pairs, smallest first. It has no decrease-key: the caller pushes an
 * updated entry and discards the outdated one when it is popped.
 */
#ifndef LIBTRAIN_DATA_HEAP_H
#define LIBTRAIN_DATA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_heap_entry {
  uint64_t key; /* primary order */
  uint32_t tie; /* order among equal keys */
  uint32_t value;
} train_heap_entry_t;

/* All zero is the empty heap. */
typedef struct train_heap {
  train_heap_entry_t *entries;
  size_t count, capacity;
} train_heap_t;

coll_status_t train_heap_push(train_heap_t *heap, train_heap_entry_t entry);

/* Removes the smallest entry; false when the heap is empty. */
bool train_heap_pop(train_heap_t *heap, train_heap_entry_t *entry);

void train_heap_free(train_heap_t *heap);

#endif
