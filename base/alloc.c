/* Wrappers of calloc, realloc and madvise. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

coll_status_t base_alloc(size_t count, size_t bytes, const char *what, void **array) {
  void *memory = calloc(count > 0 ? count : 1, bytes > 0 ? bytes : 1);
  if (memory == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "out of memory: %zu x %zu bytes for %s", count, bytes,
                     what);
  }
  *array = memory;
  return COLL_OK;
}

coll_status_t base_grow(void **array, size_t *capacity, size_t needed, size_t bytes,
                        const char *what) {
  if (needed <= *capacity) return COLL_OK;
  size_t grown = *capacity < 8 ? 8 : *capacity * 2;
  if (grown < needed) grown = needed;
  size_t total;
  void *memory = base_size_multiply(grown, bytes, &total) ? realloc(*array, total) : NULL;
  if (memory == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "out of memory: %zu x %zu bytes for %s", grown, bytes,
                     what);
  }
  *array = memory;
  *capacity = grown;
  return COLL_OK;
}

void base_populate(void *memory, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory & ~(page - 1);
  madvise((void *)first, (uintptr_t)memory + bytes - first, MADV_POPULATE_WRITE);
}
