/*
 * Objects whose addresses users hold as handles. A handle may be anything: used after it was
 * destroyed, of another kind, NULL, or random. So objects of a kind lie in slots of one range of
 * addresses, which is reserved as a whole: a handle is looked at only where such a slot begins. All
 * that is looked at is the object's first member, its tag (base/fork.h), by an atomic load: another
 * thread may make, use or destroy the object there meanwhile. Memory of an object that was freed
 * reads as zeros, and its address is not used again before HANDLES_BEFORE_REUSE later objects were
 * made (or all addresses of the range are used).
 */
#ifndef BASE_HANDLES_H
#define BASE_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define HANDLES_BEFORE_REUSE 1000

typedef _Atomic uint64_t base_handle_tag_t; /* the first member of every object; 0: it is freed */

typedef struct base_handle_slot {
  uint64_t freed_at; /* the number of objects made before it was freed */
  uint32_t next;     /* freed after it */
} base_handle_slot_t;

typedef struct base_handles {
  size_t object_bytes;
  const char *what; /* "communicators", for errors */

  /* Written by holders of the lock (handles.c), `used` last, and read by all, who may hold
   * anything. Objects were made in `used` slots of 2^shift bytes from `first` on. */
  _Atomic uintptr_t first, used;
  atomic_uint shift;

  /* The fields below belong to the holder of the lock. */
  size_t slot_count; /* 0: nothing is reserved yet */
  base_handle_slot_t *slots;
  uint64_t made;
  uint32_t oldest, newest, freed; /* a list of slots, and its length */
} base_handles_t;

#define BASE_HANDLES(type, plural) \
  { .object_bytes = sizeof(type), .what = (plural) }

/* Zeroed; the caller sets the tag when the object may be used. COLL_ERROR_MEMORY. */
coll_status_t base_handles_new(base_handles_t *handles, void **object);

/* The object's memory is zero from now on. NULL is ignored. */
void base_handles_free(base_handles_t *handles, void *object);

/* The tag of the object of this kind at the address, which may be any; 0: there is none. */
static inline uint64_t base_handles_tag(const base_handles_t *handles, const void *handle) {
  /* acquire: with a range that is not empty, the thread sees where it begins */
  uintptr_t used = atomic_load_explicit(&handles->used, memory_order_acquire);
  unsigned shift = atomic_load_explicit(&handles->shift, memory_order_relaxed);
  uintptr_t offset =
      (uintptr_t)handle - atomic_load_explicit(&handles->first, memory_order_relaxed);
  /* rotated, so that an offset that is no multiple of the slots' size becomes a large number */
  if ((offset >> shift | offset << (-shift % (8 * sizeof offset))) >= used) return 0;
  /* acquire: what the thread that made the object has written is visible */
  return atomic_load_explicit((const base_handle_tag_t *)handle, memory_order_acquire);
}

#endif
