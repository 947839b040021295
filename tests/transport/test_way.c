/* What senders conclude from how long payloads took either way. */
#include <criterion/criterion.h>

#include "transport/shm/way.h"

enum { BYTES = 8192, NEAR_NS = 500, FAR_NS = 3000, MEMORY_NS = 300 };

/* A whole trial; how many payloads it took. */
static int try(shm_scout_t *scout, uint64_t cache_ns, uint64_t memory_ns) {
  int payloads = 0;
  do {
    shm_way_t way = shm_scout_next(scout);
    scout->due = 0; /* as shm_scout_tries has it */
    shm_scout_note(scout, way, BYTES, way == SHM_BY_CACHE ? cache_ns : memory_ns);
    payloads++;
  } while (scout->due == 0);
  return payloads;
}

Test(way, is_by_cache_until_a_trial) {
  shm_scout_t scout;
  uint64_t stored = 0;
  shm_scout_init(&scout);
  cr_assert_eq(scout.way, SHM_BY_CACHE);
  while (!shm_scout_tries(&scout, BYTES) && stored < 2 * SHM_WAY_PERIOD_LEAST) stored += BYTES;
  uint64_t wanted =
      BASE_MOVES_PAST_CACHES ? SHM_WAY_PERIOD_LEAST - BYTES : 2 * SHM_WAY_PERIOD_LEAST;
  cr_assert_eq(stored, wanted, "the first trial comes with byte %d", (int)stored);
}

Test(way, is_tried_in_turn) {
  shm_scout_t scout;
  shm_scout_init(&scout);
  cr_assert_eq(shm_scout_next(&scout), SHM_BY_CACHE);
  shm_scout_note(&scout, SHM_BY_CACHE, BYTES, NEAR_NS);
  cr_assert_eq(shm_scout_next(&scout), SHM_BY_MEMORY);
  shm_scout_note(&scout, SHM_BY_MEMORY, BYTES, NEAR_NS);
  cr_assert_eq(shm_scout_next(&scout), SHM_BY_CACHE);
  cr_assert_eq(2 + try(&scout, NEAR_NS, MEMORY_NS), 2 * SHM_WAY_SAMPLES);
}

Test(way, is_by_memory_where_that_is_much_faster) {
  shm_scout_t scout;
  shm_scout_init(&scout);
  try(&scout, NEAR_NS, MEMORY_NS);
  cr_assert_eq(scout.way, SHM_BY_CACHE, "somewhat faster is not enough");
  try(&scout, FAR_NS, MEMORY_NS);
  cr_assert_eq(scout.way, SHM_BY_MEMORY);
  try(&scout, NEAR_NS, MEMORY_NS);
  cr_assert_eq(scout.way, SHM_BY_CACHE, "the cores are near each other again");
}

Test(way, is_tried_seldomer_the_longer_it_stays) {
  shm_scout_t scout;
  shm_scout_init(&scout);
  for (uint64_t period = 2 * SHM_WAY_PERIOD_LEAST; period <= SHM_WAY_PERIOD_MOST; period *= 2) {
    try(&scout, NEAR_NS, MEMORY_NS);
    cr_assert_eq(scout.due, period);
  }
  try(&scout, NEAR_NS, MEMORY_NS);
  cr_assert_eq(scout.due, SHM_WAY_PERIOD_MOST);
  try(&scout, FAR_NS, MEMORY_NS);
  cr_assert_eq(scout.due, SHM_WAY_PERIOD_LEAST, "what has changed may change again");
}

/* The thread was away meanwhile, or the payload is of another size. */
Test(way, is_judged_by_the_best_payload_per_byte) {
  shm_scout_t scout;
  shm_scout_init(&scout);
  shm_scout_note(&scout, SHM_BY_CACHE, 4 * BYTES, 4 * NEAR_NS);
  try(&scout, 100 * NEAR_NS, NEAR_NS);
  cr_assert_eq(scout.way, SHM_BY_CACHE);
}
