/*
 * Allocation with the overflow check and the error sentence in one place. What these return is
 * freed with free().
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define BASE_CACHE_LINE 64

/* count * bytes, or false when it does not fit a size_t. */
static inline bool base_size_multiply(size_t count, size_t bytes, size_t *product) {
  return !__builtin_mul_overflow(count, bytes, product);
}

/* Smallest multiple of `multiple` (> 0) that is not below value. */
static inline size_t base_round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* Whether two stretches of memory, neither at NULL, have bytes in common. */
static inline bool base_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
  return first < second + b_bytes && second < first + a_bytes;
}

/* Zeroed array of `count` elements of `bytes` each in *array. COLL_ERROR_MEMORY names `what`. */
coll_status_t base_alloc(size_t count, size_t bytes, const char *what, void **array);

/* Makes room for at least `needed` elements in the growable *array of *capacity elements, keeping
 * its contents; growth is geometric. On failure nothing changes. */
coll_status_t base_grow(void **array, size_t *capacity, size_t needed, size_t bytes,
                        const char *what);

/* Enters the pages of memory that is mapped into this process's tables, so that they come at once
 * instead of one by one, some microsecond each, in the middle of calls. Where the kernel cannot,
 * they come as they are touched. */
void base_populate(void *memory, size_t bytes);

#endif
