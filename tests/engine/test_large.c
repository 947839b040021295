/*
 * Large messages, whose receiver reads the sender's buffer: alltoallv with pairs of all sizes,
 * buffers that are mapped and buffers that are not, ranks of one host and of several, many passes
 * and few.
 */
#include <criterion/criterion.h>

#include "engine/fleet.h"
#include "engine/large.h"
#include "harness/faults.h"
#include "verify/random.h"

#define CALLS 4

/* Counts of pairs are up to the call's count, so some messages of a call are large. */
static fleet_call_t some_call(uint64_t *random, int size) {
  const algo_t *algo = algo_at(COLL_ALLTOALLV, 0);
  size_t most = 3 * ENGINE_LARGE_BYTES_MIN / sizeof(int64_t);
  const question_t q = {.collective = COLL_ALLTOALLV,
                        .size = size,
                        .count = 1 + (size_t)random_below(random, (int32_t)most),
                        .dtype = COLL_INT64,
                        .seed = random_next(random) % 100000};
  return (fleet_call_t){.algo = algo, .question = q, .place = FLEET_OUT_OF_PLACE};
}

static void run_calls(int size, size_t slot_bytes, bool on_hosts) {
  fleet_call_t calls[CALLS];
  char text[FLEET_TEXT_BYTES] = "";
  const fleet_options_t options = {.size = size,
                                   .seed = 17 * (uint64_t)size + slot_bytes,
                                   .refuse_percent = 30,
                                   .slot_bytes = slot_bytes,
                                   .on_hosts = on_hosts};
  uint64_t random = options.seed;
  for (int i = 0; i < CALLS; i++) calls[i] = some_call(&random, size);
  cr_assert(fleet_run(&options, calls, CALLS, NULL, text), "%s", text);
}

Test(large, messages_arrive_in_every_order) {
  for (int size = 1; size <= 6; size++) {
    run_calls(size, 0, false);
    run_calls(size, 8192, false);
  }
}

Test(large, messages_between_hosts_are_fetched) {
  for (int size = 2; size <= 6; size++) {
    run_calls(size, 0, true);
    run_calls(size, 8192, true);
  }
  cr_assert_gt(faults_fetches(), 20);
}
