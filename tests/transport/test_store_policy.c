/* What senders conclude from how long payloads took either way. */
#include <criterion/criterion.h>

#include "transport/shm/store_policy.h"

enum { BYTES = 8192, NEAR_NS = 500, FAR_NS = 3000, MEMORY_NS = 300 };

/* A whole trial; how many payloads it took. */
static int try(shm_policy_t *policy, uint64_t cache_ns, uint64_t memory_ns) {
  int payloads = 0;
  do {
    shm_store_t store = shm_policy_sample_store(policy);
    policy->bytes_to_trial = 0; /* as shm_policy_in_trial has it */
    shm_policy_note(policy, store, BYTES, store == SHM_STORE_CACHED ? cache_ns : memory_ns);
    payloads++;
  } while (policy->bytes_to_trial == 0);
  return payloads;
}

Test(way, is_by_cache_until_a_trial) {
  shm_policy_t policy;
  uint64_t stored = 0;
  shm_policy_init(&policy);
  cr_assert_eq(policy.store, SHM_STORE_CACHED);
  while (!shm_policy_in_trial(&policy, BYTES) && stored < 2 * SHM_POLICY_INTERVAL_MIN)
    stored += BYTES;
  uint64_t wanted =
      BASE_MOVES_PAST_CACHES ? SHM_POLICY_INTERVAL_MIN - BYTES : 2 * SHM_POLICY_INTERVAL_MIN;
  cr_assert_eq(stored, wanted, "the first trial comes with byte %d", (int)stored);
}

Test(way, is_tried_in_turn) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  cr_assert_eq(shm_policy_sample_store(&policy), SHM_STORE_CACHED);
  shm_policy_note(&policy, SHM_STORE_CACHED, BYTES, NEAR_NS);
  cr_assert_eq(shm_policy_sample_store(&policy), SHM_STORE_NONTEMPORAL);
  shm_policy_note(&policy, SHM_STORE_NONTEMPORAL, BYTES, NEAR_NS);
  cr_assert_eq(shm_policy_sample_store(&policy), SHM_STORE_CACHED);
  cr_assert_eq(2 + try(&policy, NEAR_NS, MEMORY_NS), 2 * SHM_POLICY_SAMPLES);
}

Test(way, is_by_memory_where_that_is_much_faster) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  try(&policy, NEAR_NS, MEMORY_NS);
  cr_assert_eq(policy.store, SHM_STORE_CACHED, "somewhat faster is not enough");
  try(&policy, FAR_NS, MEMORY_NS);
  cr_assert_eq(policy.store, SHM_STORE_NONTEMPORAL);
  try(&policy, NEAR_NS, MEMORY_NS);
  cr_assert_eq(policy.store, SHM_STORE_CACHED, "the cores are near each other again");
}

Test(way, is_tried_seldomer_the_longer_it_stays) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  for (uint64_t interval = 2 * SHM_POLICY_INTERVAL_MIN; interval <= SHM_POLICY_INTERVAL_MAX;
       interval *= 2) {
    try(&policy, NEAR_NS, MEMORY_NS);
    cr_assert_eq(policy.bytes_to_trial, interval);
  }
  try(&policy, NEAR_NS, MEMORY_NS);
  cr_assert_eq(policy.bytes_to_trial, SHM_POLICY_INTERVAL_MAX);
  try(&policy, FAR_NS, MEMORY_NS);
  cr_assert_eq(policy.bytes_to_trial, SHM_POLICY_INTERVAL_MIN, "what has changed may change again");
}

/* The thread was away meanwhile, or the payload is of another size. */
Test(way, is_judged_by_the_best_payload_per_byte) {
  shm_policy_t policy;
  shm_policy_init(&policy);
  shm_policy_note(&policy, SHM_STORE_CACHED, 4 * BYTES, 4 * NEAR_NS);
  try(&policy, 100 * NEAR_NS, NEAR_NS);
  cr_assert_eq(policy.store, SHM_STORE_CACHED);
}
