/* In a trial payloads go either way in turn, so that both ways have the same sizes to store. */
#include "transport/shm/store_policy.h"

/* Memory has to be so many times as fast to be taken. To senders that share the last cache with
 * their receivers it is as fast or so, and up to 5 times as fast once lines have gone that way, but
 * then it is the receivers that wait for memory; to others it is mostly 6 to 18 times. */
#define ADVANTAGE 5

shm_store_t shm_policy_next(const shm_policy_t *policy) {
  return policy->samples[SHM_STORE_NONTEMPORAL] < policy->samples[SHM_STORE_CACHED]
             ? SHM_STORE_NONTEMPORAL
             : SHM_STORE_CACHED;
}

/* Forgets the samples. */
static void end_trial(shm_policy_t *policy) {
  bool by_memory =
      policy->least[SHM_STORE_NONTEMPORAL] < policy->least[SHM_STORE_CACHED] / ADVANTAGE;
  shm_store_t better = by_memory ? SHM_STORE_NONTEMPORAL : SHM_STORE_CACHED;
  uint64_t longer = policy->period < SHM_POLICY_PERIOD_MAX ? 2 * policy->period : policy->period;
  uint64_t period = better == policy->way ? longer : SHM_POLICY_PERIOD_MIN;
  *policy = (shm_policy_t){.way = better, .period = period, .due = period};
}

/* The least counts, as a thread may lose its core while it stores. */
void shm_policy_note(shm_policy_t *policy, shm_store_t way, size_t bytes, uint64_t ns) {
  uint64_t per_mib = (ns << 20) / bytes;
  if (policy->samples[way] == 0 || per_mib < policy->least[way]) policy->least[way] = per_mib;
  policy->samples[way]++;
  if (policy->samples[SHM_STORE_NONTEMPORAL] == SHM_POLICY_SAMPLES) end_trial(policy);
}
