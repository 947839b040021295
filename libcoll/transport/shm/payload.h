/*
 * How the bytes of messages that do not fit a descriptor are copied: so that the lines are not
 * fetched from their last reader only to be written over, and not taken out of a far reader's
 * caches at all where memory is the better way (way.h).
 */
#ifndef TRANSPORT_SHM_PAYLOAD_H
#define TRANSPORT_SHM_PAYLOAD_H

#include <string.h>

#include "base/clock.h"
#include "base/inline.h"
#include "base/move.h"
#include "transport/shm/store_policy.h"

#define SHM_STRING_MOVE_MIN 1024 /* bytes from which a string move pays for its start */

/* Into shared memory that others have read. */
static inline void shm_payload_write(void *dst, const void *src, size_t bytes) {
  if (bytes >= SHM_STRING_MOVE_MIN && base_moves_strings()) {
    base_move_string(dst, src, bytes);
  } else {
    memcpy(dst, src, bytes);
  }
}

/* The same to a place that begins on a line. */
static inline void shm_payload_write_by(shm_store_t way, void *dst, const void *src, size_t bytes) {
  if (way == SHM_STORE_NONTEMPORAL) {
    base_move_past_caches(dst, src, bytes);
  } else {
    shm_payload_write(dst, src, bytes);
  }
}

BASE_APART static void shm_payload_try(shm_policy_t *policy, void *dst, const void *src,
                                       size_t bytes) {
  shm_store_t way = shm_policy_next(policy);
  uint64_t began_ns = base_clock_now_ns();
  shm_payload_write_by(way, dst, src, bytes);
  shm_policy_note(policy, way, bytes, base_clock_now_ns() - began_ns);
}

/* The same, whichever way is the better. */
static inline void shm_payload_put(shm_policy_t *policy, void *dst, const void *src, size_t bytes) {
  if (bytes < SHM_POLICY_BYTES_MIN) {
    shm_payload_write(dst, src, bytes);
  } else if (__builtin_expect(shm_policy_samples(policy, bytes), false)) {
    shm_payload_try(policy, dst, src, bytes);
  } else {
    shm_payload_write_by(policy->way, dst, src, bytes);
  }
}

#endif
