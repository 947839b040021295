/*
 * Memory allocation with overflow checks and error messages. The memory is freed with free().
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define BASE_CACHE_LINE 64

/* *product = count * bytes. Returns false on overflow. */
static inline bool base_size_multiply(size_t count, size_t bytes, size_t *product) {
  return !__builtin_mul_overflow(count, bytes, product);
}

/* Smallest multiple of `multiple` (> 0) that is >= value. */
static inline size_t base_round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* Returns whether two memory ranges, neither at NULL, have bytes in common. */
static inline bool base_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
  return first < second + b_bytes && second < first + a_bytes;
}

/* Allocates a zeroed array of `count` elements of `bytes` each in *array, owned by the caller.
 * COLL_ERROR_MEMORY: the message names `what`. */
coll_status_t base_alloc(size_t count, size_t bytes, const char *what, void **array);

/* Grows *array of *capacity elements of `bytes` each to at least `needed` elements, and copies its
 * contents; growth is geometric. COLL_ERROR_MEMORY: nothing has changed. */
coll_status_t base_grow(void **array, size_t *capacity, size_t needed, size_t bytes,
                        const char *what);

/* Populates the pages of mapped memory at once. Otherwise each first touch costs a page fault of
 * about a microsecond in the middle of a call. Does nothing if the kernel does not support it. */
void base_populate(void *memory, size_t bytes);

#endif
