/* Context switches in plans for which they can be derived by hand. */
#include <criterion/criterion.h>

#include "base/status.h"
#include "tune/sched_sim.h"

/* The number of context switches in TUNE_SIM_CALLS calls. */
static int64_t switches(coll_collective_t collective, const char *name, int size, int cores) {
  tune_profile_t profile = {0};
  cr_assert_eq(algo_find(collective, name, &profile.algo), COLL_OK, "%s", base_last_error());
  cr_assert_eq(tune_sched_sim(&profile, size, cores), COLL_OK, "%s", base_last_error());
  return profile.switches;
}

static void expect_per_call(int64_t found, int64_t per_call) {
  int64_t expected = per_call * TUNE_SIM_CALLS;
  cr_expect_eq(found, expected, "%ld switches, not %ld", found, expected);
}

/* The last rank to reach a barrier continues to the next one without a switch. */
Test(sched_sim, one_barrier_needs_ranks_minus_one_switches) {
  for (int ranks = 2; ranks <= 5; ranks++) {
    expect_per_call(switches(COLL_ALLREDUCE, "allpairs", ranks, 1), ranks - 1);
    expect_per_call(switches(COLL_ALLREDUCE, "allpairs", 2 * ranks, 2), ranks - 1);
  }
}

Test(sched_sim, switches_of_several_barriers_add_up) {
  for (int ranks = 2; ranks <= 5; ranks++) {
    expect_per_call(switches(COLL_ALLREDUCE, "twophase_push", 2 * ranks, 2), 2 * (ranks - 1));
    expect_per_call(switches(COLL_ALLREDUCE, "staged", 2 * ranks, 2), 3 * (ranks - 1));
  }
}

/* Every rank needs one time slice per call, whatever it waits for. */
Test(sched_sim, two_executors_need_few_switches) {
  for (int ranks = 3; ranks <= 5; ranks++) {
    expect_per_call(switches(COLL_ALLREDUCE, "mapped_by_two", 2 * ranks, 2), ranks);
    expect_per_call(switches(COLL_ALLREDUCE, "staged_by_two", 2 * ranks, 2), ranks);
    expect_per_call(switches(COLL_ALLREDUCE, "staged_by_two_push", 2 * ranks, 2), ranks);
  }
}

/* The root of a broadcast that pushes does all of the work. */
Test(sched_sim, counts_the_work_of_the_busiest_rank) {
  static const struct {
    coll_collective_t collective;
    const char *name;
    int64_t busiest; /* the work of how many of 8 ranks it does */
  } plans[] = {{COLL_ALLREDUCE, "allpairs", 1},
               {COLL_ALLREDUCE, "twophase_push", 1},
               {COLL_ALLREDUCE, "mapped_by_two", 4},
               {COLL_BROADCAST, "mapped_push", 8}};
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
    tune_profile_t profile = {0};
    cr_assert_eq(algo_find(plans[i].collective, plans[i].name, &profile.algo), COLL_OK);
    cr_assert_eq(tune_sched_sim(&profile, 8, 2), COLL_OK);
    cr_expect_eq(profile.max_work * 8, plans[i].busiest * profile.work, "%s: %d of %d",
                 plans[i].name, (int)profile.max_work, (int)profile.work);
  }
}

/* Each half of the result is loaded by three ranks of its owner's core and four of the other
 * core. */
Test(sched_sim, counts_loads_that_hit_the_cache) {
  tune_profile_t before, after;
  const algo_t *algo;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "staged_by_two", &algo), COLL_OK);
  cr_assert_eq(tune_profile_make(algo, 8, NULL, &plan_host_capabilities, &before), COLL_OK);
  after = before;
  cr_assert_eq(tune_sched_sim(&after, 8, 2), COLL_OK);
  int64_t cached_loads = before.all.chunks[TUNE_PULL] - after.all.chunks[TUNE_PULL];
  cr_expect_eq(cached_loads, 2 * (2 + 3), "%ld, not 10", cached_loads);
  cr_expect_eq(after.all.chunks[TUNE_NEAR] - before.all.chunks[TUNE_NEAR], cached_loads);
}

/* No plan deadlocks in the simulation. */
Test(sched_sim, simulates_every_plan) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int size = 2; size <= TUNE_WHOLE; size += 7) {
        tune_profile_t profile = {.algo = algo};
        cr_assert_eq(tune_sched_sim(&profile, size, 1 + size / 6), COLL_OK, "%s",
                     base_last_error());
        cr_expect(profile.switches > 0);
      }
    }
  }
}
