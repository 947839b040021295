/* A binary heap in an array. */
#include "libtrain/data/heap.h"

#include <stdlib.h>

#include "base/alloc.h"

static bool before(const train_heap_entry_t *a, const train_heap_entry_t *b) {
  return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

coll_status_t train_heap_push(train_heap_t *heap, train_heap_entry_t entry) {
  void *entries = heap->entries;
  COLL_TRY(base_grow(&entries, &heap->capacity, heap->count + 1, sizeof entry, "a queue"));
  heap->entries = entries;
  size_t at = heap->count++;
  for (; at > 0 && before(&entry, &heap->entries[(at - 1) / 2]); at = (at - 1) / 2) {
    heap->entries[at] = heap->entries[(at - 1) / 2];
  }
  heap->entries[at] = entry;
  return COLL_OK;
}

bool train_heap_pop(train_heap_t *heap, train_heap_entry_t *entry) {
  if (heap->count == 0) return false;
  *entry = heap->entries[0];
  train_heap_entry_t last = heap->entries[--heap->count];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= heap->count) break;
    if (child + 1 < heap->count && before(&heap->entries[child + 1], &heap->entries[child])) {
      child++;
    }
    if (!before(&heap->entries[child], &last)) break;
    heap->entries[at] = heap->entries[child];
    at = child;
  }
  heap->entries[at] = last;
  return true;
}

void train_heap_free(train_heap_t *heap) {
  free(heap->entries);
  *heap = (train_heap_t){0};
}
