/* A trial alternates between the two kinds of store, so that both store payloads of the same sizes.
 * */
#include "transport/shm/store_policy.h"

/* Non-temporal stores are chosen if they are this many times faster. For a sender that shares the
 * last-level cache with its receiver they are about equally fast at first, and up to 5 times faster
 * once the lines are in memory, but then the receiver has to wait for memory. For other senders
 * they are mostly 6 to 18 times faster. */
#define NONTEMPORAL_ADVANTAGE 5

shm_store_t shm_policy_sample_store(const shm_policy_t *policy) {
  return policy->samples[SHM_STORE_NONTEMPORAL] < policy->samples[SHM_STORE_CACHED]
             ? SHM_STORE_NONTEMPORAL
             : SHM_STORE_CACHED;
}

/* Chooses the kind for the next interval, and clears the samples. */
static void end_trial(shm_policy_t *policy) {
  bool is_nontemporal = policy->fastest[SHM_STORE_NONTEMPORAL] <
                        policy->fastest[SHM_STORE_CACHED] / NONTEMPORAL_ADVANTAGE;
  shm_store_t better = is_nontemporal ? SHM_STORE_NONTEMPORAL : SHM_STORE_CACHED;
  uint64_t longer = policy->trial_interval < SHM_POLICY_INTERVAL_MAX ? 2 * policy->trial_interval
                                                                     : policy->trial_interval;
  uint64_t interval = better == policy->store ? longer : SHM_POLICY_INTERVAL_MIN;
  *policy = (shm_policy_t){.store = better, .trial_interval = interval, .bytes_to_trial = interval};
}

/* Keeps the fastest sample, because a thread may lose its core during a store. */
void shm_policy_note(shm_policy_t *policy, shm_store_t store, size_t bytes, uint64_t ns) {
  uint64_t per_mib = (ns << 20) / bytes;
  if (policy->samples[store] == 0 || per_mib < policy->fastest[store])
    policy->fastest[store] = per_mib;
  policy->samples[store]++;
  if (policy->samples[SHM_STORE_NONTEMPORAL] == SHM_POLICY_SAMPLES) end_trial(policy);
}
