/*
 * Copies payloads that do not fit into a descriptor. String moves avoid reading the old content of
 * the destination lines from the core that read them last. Non-temporal stores avoid the receiver's
 * caches where that is faster (store_policy.h).
 */
#ifndef TRANSPORT_SHM_PAYLOAD_H
#define TRANSPORT_SHM_PAYLOAD_H

#include <string.h>

#include "base/clock.h"
#include "base/inline.h"
#include "base/move.h"
#include "transport/shm/store_policy.h"

#define SHM_STRING_MOVE_MIN \
  1024 /* size from which a string move is faster despite its start-up cost */

/* Copies into shared memory that other cores have read. */
static inline void shm_payload_write(void *dst, const void *src, size_t bytes) {
  if (bytes >= SHM_STRING_MOVE_MIN && base_moves_strings()) {
    base_move_string(dst, src, bytes);
  } else {
    memcpy(dst, src, bytes);
  }
}

/* The same with the given kind of store; dst is aligned to a cache line. */
static inline void shm_payload_write_by(shm_store_t store, void *dst, const void *src,
                                        size_t bytes) {
  if (store == SHM_STORE_NONTEMPORAL) {
    base_move_past_caches(dst, src, bytes);
  } else {
    shm_payload_write(dst, src, bytes);
  }
}

BASE_APART static void shm_payload_sample(shm_policy_t *policy, void *dst, const void *src,
                                          size_t bytes) {
  shm_store_t store = shm_policy_sample_store(policy);
  uint64_t began_ns = base_clock_now_ns();
  shm_payload_write_by(store, dst, src, bytes);
  shm_policy_note(policy, store, bytes, base_clock_now_ns() - began_ns);
}

/* The same with the kind of store that the policy chooses. */
static inline void shm_payload_put(shm_policy_t *policy, void *dst, const void *src, size_t bytes) {
  if (bytes < SHM_POLICY_BYTES_MIN) {
    shm_payload_write(dst, src, bytes);
  } else if (__builtin_expect(shm_policy_in_trial(policy, bytes), false)) {
    shm_payload_sample(policy, dst, src, bytes);
  } else {
    shm_payload_write_by(policy->store, dst, src, bytes);
  }
}

#endif
