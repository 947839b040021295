/*
 * Objects whose addresses users hold as handles. A handle may be anything: used after it was
 * destroyed, of another kind, NULL, or random. So objects of a kind lie in one range of addresses,
 * which is reserved as a whole: a handle is looked at only if it is in that range. Memory of an
 * object that was freed reads as zeros, and its address is not used again before
 * HANDLES_BEFORE_REUSE later objects were made (or all addresses of the range are used).
 *
 * The first word of an object should tell a live one from zeros, and from whatever lies in the
 * middle of another one (base/fork.h).
 */
#ifndef BASE_HANDLES_H
#define BASE_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define HANDLES_BEFORE_REUSE 1000

typedef struct base_handle_slot {
  uint64_t freed_at; /* the number of objects made before it was freed */
  uint32_t next;     /* freed after it */
} base_handle_slot_t;

typedef struct base_handles {
  size_t object_bytes;
  const char *what; /* "communicators", for errors */

  /* Written by holders of the lock (handles.c), `first` before `used_words`, and read by all, who
   * may hold anything. Objects were made in so many words of 8 bytes from `first` on. */
  _Atomic uintptr_t first, used_words;

  /* The fields below belong to the holder of the lock. */
  size_t slot_bytes, slot_count; /* slot_count 0: nothing is reserved yet */
  base_handle_slot_t *slots;
  uint64_t made;
  uint32_t oldest, newest, freed; /* a list of slots, and its length */
} base_handles_t;

#define BASE_HANDLES(type, plural) \
  { .object_bytes = sizeof(type), .what = (plural) }

/* Zeroed. COLL_ERROR_MEMORY. */
coll_status_t base_handles_new(base_handles_t *handles, void **object);

/* The object's memory is zero from now on. NULL is ignored. */
void base_handles_free(base_handles_t *handles, void *object);

/* Whether there is memory of this kind of objects at the address, so that the first word can be
 * read. */
static inline bool base_handles_has(const base_handles_t *handles, const void *handle) {
  /* acquire: with a range that is not empty, the thread sees where it begins */
  uintptr_t used = atomic_load_explicit(&handles->used_words, memory_order_acquire);
  uintptr_t offset =
      (uintptr_t)handle - atomic_load_explicit(&handles->first, memory_order_relaxed);
  /* rotated, so that an offset that is no multiple of 8 becomes a large number */
  return (offset >> 3 | offset << (8 * sizeof offset - 3)) < used;
}

#endif
