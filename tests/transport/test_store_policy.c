/* The choice of a sender for given times of cached and non-temporal stores. */
#include <criterion/criterion.h>

#include "transport/shm/store_policy.h"

enum { BYTES = 8192, CACHED_FAST_NS = 500, CACHED_SLOW_NS = 3000, NONTEMPORAL_NS = 300 };

/* Runs a trial; returns the number of payloads. */
static int run_trial(shm_policy_t *policy, uint64_t cached_ns, uint64_t nontemporal_ns) {
  int payloads = 0;
  do {
    shm_store_t store = shm_policy_sample_store(policy);
    policy->bytes_to_trial = 0; /* as during a trial */
    shm_policy_note(policy, store, BYTES, store == SHM_STORE_CACHED ? cached_ns : nontemporal_ns);
    payloads++;
  } while (policy->bytes_to_trial == 0);
  return payloads;
}

Test(store_policy, starts_with_cached_stores) {
  shm_policy_t policy;
  uint64_t stored = 0;
  shm_policy_init(&policy);
  cr_assert_eq(policy.store, SHM_STORE_CACHED);
  while (!shm_policy_in_trial(&policy, BYTES) && stored < 2 * SHM_POLICY_INTERVAL_MIN)
    stored += BYTES;
  uint64_t wanted =
      BASE_MOVES_PAST_CACHES ? SHM_POLICY_INTERVAL_MIN - BYTES : 2 * SHM_POLICY_INTERVAL_MIN;
  cr_assert_eq(stored, wanted, "the first trial starts at byte %d", (int)stored);
}

Test(store_policy, alternates_in_a_trial) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  cr_assert_eq(shm_policy_sample_store(&policy), SHM_STORE_CACHED);
  shm_policy_note(&policy, SHM_STORE_CACHED, BYTES, CACHED_FAST_NS);
  cr_assert_eq(shm_policy_sample_store(&policy), SHM_STORE_NONTEMPORAL);
  shm_policy_note(&policy, SHM_STORE_NONTEMPORAL, BYTES, CACHED_FAST_NS);
  cr_assert_eq(shm_policy_sample_store(&policy), SHM_STORE_CACHED);
  cr_assert_eq(2 + run_trial(&policy, CACHED_FAST_NS, NONTEMPORAL_NS), 2 * SHM_POLICY_SAMPLES);
}

Test(store_policy, chooses_nontemporal_if_much_faster) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  run_trial(&policy, CACHED_FAST_NS, NONTEMPORAL_NS);
  cr_assert_eq(policy.store, SHM_STORE_CACHED, "somewhat faster is not enough");
  run_trial(&policy, CACHED_SLOW_NS, NONTEMPORAL_NS);
  cr_assert_eq(policy.store, SHM_STORE_NONTEMPORAL);
  run_trial(&policy, CACHED_FAST_NS, NONTEMPORAL_NS);
  cr_assert_eq(policy.store, SHM_STORE_CACHED, "cached stores are fast again");
}

Test(store_policy, doubles_the_interval_while_unchanged) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  for (uint64_t interval = 2 * SHM_POLICY_INTERVAL_MIN; interval <= SHM_POLICY_INTERVAL_MAX;
       interval *= 2) {
    run_trial(&policy, CACHED_FAST_NS, NONTEMPORAL_NS);
    cr_assert_eq(policy.bytes_to_trial, interval);
  }
  run_trial(&policy, CACHED_FAST_NS, NONTEMPORAL_NS);
  cr_assert_eq(policy.bytes_to_trial, SHM_POLICY_INTERVAL_MAX);
  run_trial(&policy, CACHED_SLOW_NS, NONTEMPORAL_NS);
  cr_assert_eq(policy.bytes_to_trial, SHM_POLICY_INTERVAL_MIN,
               "the interval restarts after a change");
}

/* A slow sample: the thread lost its core, or the payload has another size. */
Test(store_policy, compares_the_fastest_samples_per_byte) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  shm_policy_note(&policy, SHM_STORE_CACHED, 4 * BYTES, 4 * CACHED_FAST_NS);
  run_trial(&policy, 100 * CACHED_FAST_NS, CACHED_FAST_NS);
  cr_assert_eq(policy.store, SHM_STORE_CACHED);
}
