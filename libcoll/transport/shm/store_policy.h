/*
 * Chooses cached or non-temporal stores for message payloads. Writing a line that the receiver has
 * read costs an invalidation of the receiver's copy. That is fast between cores that share a
 * last-level cache; between other cores it takes many times as long as writing the line to memory,
 * from which the receiver reads it as fast.
 *
 * The topology does not reliably show which cores share a cache, and virtual machines move their
 * cores. Each sender therefore measures: every 1 to 64 MiB of payload it times a few payloads with
 * each kind of store (a trial) and uses the faster kind until the next trial. The interval doubles
 * as long as the result stays the same.
 */
#ifndef TRANSPORT_SHM_STORE_POLICY_H
#define TRANSPORT_SHM_STORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/move.h"

typedef enum shm_store { SHM_STORE_CACHED, SHM_STORE_NONTEMPORAL, SHM_STORE_COUNT } shm_store_t;

#define SHM_POLICY_BYTES_MIN 2048 /* shorter payloads always use cached stores */
#define SHM_POLICY_SAMPLES 6      /* payloads timed per kind of store in one trial */
#define SHM_POLICY_INTERVAL_MIN ((uint64_t)1 << 20) /* bytes of payload between two trials */
#define SHM_POLICY_INTERVAL_MAX ((uint64_t)64 << 20)

/* State of one ring, private to its sender. */
typedef struct shm_policy {
  shm_store_t store; /* the kind chosen by the latest trial */
  uint64_t trial_interval,
      bytes_to_trial; /* in bytes, and what is left of it; 0: a trial is running */
  int samples[SHM_STORE_COUNT];
  uint64_t fastest[SHM_STORE_COUNT]; /* fastest sample, in ns per MiB */
} shm_policy_t;

static inline void shm_policy_init(shm_policy_t *policy) {
  *policy = (shm_policy_t){.trial_interval = SHM_POLICY_INTERVAL_MIN,
                           .bytes_to_trial = SHM_POLICY_INTERVAL_MIN};
}

/* Called for every payload of at least SHM_POLICY_BYTES_MIN; returns whether it is part of a trial.
 * */
static inline bool shm_policy_in_trial(shm_policy_t *policy, size_t bytes) {
  if (!BASE_MOVES_PAST_CACHES) return false;
  policy->bytes_to_trial = policy->bytes_to_trial > bytes ? policy->bytes_to_trial - bytes : 0;
  return policy->bytes_to_trial == 0;
}

/* During a trial: returns the kind of store for the next payload; then records how long the store
 * took, and ends the trial after the last sample. */
shm_store_t shm_policy_sample_store(const shm_policy_t *policy);
void shm_policy_note(shm_policy_t *policy, shm_store_t store, size_t bytes, uint64_t ns);

#endif
