/*
 * Large messages, whose receiver reads the sender's buffer or, in gatherv, whose sender stores to
 * the receiver's: calls with pairs of all sizes, buffers that are mapped and buffers that are not,
 * ranks of one host and of several, many passes and few.
 */
#include <criterion/criterion.h>

#include "engine/fleet.h"
#include "engine/large.h"
#include "harness/faults.h"
#include "verify/random.h"

#define CALLS 6

/* Counts of pairs are up to the call's count, so some messages of a call are large, of half the
 * calls only those in mapped memory. */
static fleet_call_t some_call(uint64_t *random, coll_collective_t collective, int size) {
  const algo_t *algo = algo_at(collective, 0);
  size_t bytes =
      3 * (random_below(random, 2) == 0 ? ENGINE_LARGE_BYTES_MIN : ENGINE_LARGE_MAPPED_BYTES_MIN);
  const question_t q = {.collective = collective,
                        .size = size,
                        .root = collective == COLL_ALLTOALLV ? 0 : random_below(random, size),
                        .count = 1 + (size_t)random_below(random, (int32_t)(bytes / 8)),
                        .dtype = COLL_INT64,
                        .seed = random_next(random) % 100000};
  fleet_place_t place = (fleet_place_t)random_below(random, FLEET_PLACE_COUNT);
  return (fleet_call_t){.algo = algo, .question = q, .place = place};
}

static void run_calls(int size, size_t slot_bytes, bool on_hosts) {
  static const coll_collective_t collectives[] = {COLL_ALLTOALLV, COLL_GATHERV, COLL_SCATTERV};
  fleet_call_t calls[CALLS];
  char text[FLEET_TEXT_BYTES] = "";
  const fleet_options_t options = {.size = size,
                                   .seed = 17 * (uint64_t)size + slot_bytes,
                                   .refuse_percent = 30,
                                   .slot_bytes = slot_bytes,
                                   .on_hosts = on_hosts};
  uint64_t random = options.seed;
  for (int i = 0; i < CALLS; i++) {
    calls[i] = some_call(&random, collectives[random_below(&random, 3)], size);
  }
  cr_assert(fleet_run(&options, calls, CALLS, NULL, text), "%s", text);
}

Test(large, messages_arrive_in_every_order) {
  for (int size = 1; size <= 6; size++) {
    run_calls(size, 0, false);
    run_calls(size, 8192, false);
  }
}

/* What a refusal leaves behind is used up in the calls that follow. */
Test(large, messages_of_gatherv_are_stored_where_the_root_is_mapped) {
  fleet_call_t calls[60];
  char text[FLEET_TEXT_BYTES] = "";
  uint64_t random = 5;
  for (int size = 2; size <= 5; size++) {
    const fleet_options_t options = {.size = size, .seed = (uint64_t)size, .refuse_percent = 30};
    unsigned long before = fleet_stores();
    for (int i = 0; i < 60; i++) calls[i] = some_call(&random, COLL_GATHERV, size);
    cr_assert(fleet_run(&options, calls, 60, NULL, text), "%s", text);
    cr_assert_gt(fleet_stores(), before, "no message was stored by its sender");
  }
}

Test(large, messages_between_hosts_are_fetched) {
  for (int size = 2; size <= 6; size++) {
    run_calls(size, 0, true);
    run_calls(size, 8192, true);
  }
  cr_assert_gt(faults_fetches(), 20);
}
