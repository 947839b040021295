/* How often cores turn from rank to rank, in plans where that can be told by hand. */
#include <criterion/criterion.h>

#include "base/status.h"
#include "tune/sched_sim.h"

/* Of so many calls in a row. */
static int64_t turns(coll_collective_t collective, const char *name, int size, int cores) {
  tune_profile_t profile = {0};
  cr_assert_eq(algo_find(collective, name, &profile.algo), COLL_OK, "%s", base_last_error());
  cr_assert_eq(tune_sched_sim(&profile, size, cores), COLL_OK, "%s", base_last_error());
  return profile.turns;
}

static void expect_per_call(int64_t found, int64_t per_call) {
  int64_t expected = per_call * TUNE_SIM_CALLS;
  cr_expect_eq(found, expected, "%ld turns, not %ld", found, expected);
}

/* Whoever comes last to a meeting goes on to the next. */
Test(turns, of_one_meeting_are_one_fewer_than_ranks) {
  for (int ranks = 2; ranks <= 5; ranks++) {
    expect_per_call(turns(COLL_ALLREDUCE, "allpairs", ranks, 1), ranks - 1);
    expect_per_call(turns(COLL_ALLREDUCE, "allpairs", 2 * ranks, 2), ranks - 1);
  }
}

Test(turns, of_several_meetings_add_up) {
  for (int ranks = 2; ranks <= 5; ranks++) {
    expect_per_call(turns(COLL_ALLREDUCE, "twophase_push", 2 * ranks, 2), 2 * (ranks - 1));
    expect_per_call(turns(COLL_ALLREDUCE, "staged", 2 * ranks, 2), 3 * (ranks - 1));
  }
}

/* Every rank needs the core but once, whatever it waits for. */
Test(turns, are_few_where_two_ranks_work_for_all) {
  for (int ranks = 3; ranks <= 5; ranks++) {
    expect_per_call(turns(COLL_ALLREDUCE, "mapped_by_two", 2 * ranks, 2), ranks);
    expect_per_call(turns(COLL_ALLREDUCE, "staged_by_two", 2 * ranks, 2), ranks);
    expect_per_call(turns(COLL_ALLREDUCE, "staged_by_two_push", 2 * ranks, 2), ranks);
  }
}

/* The executor comes last, does the work and goes on to the next call. */
Test(turns, are_fewer_still_where_two_ranks_of_a_core_lead_in_turns) {
  cr_expect_eq(tune_executors(4, 2), 2);
  cr_expect_eq(tune_executors(3, 2), 1);
  cr_expect_eq(tune_executors(8, 2), 1);
  expect_per_call(turns(COLL_ALLREDUCE, "mapped_by_two", 4, 2), 1);
  expect_per_call(turns(COLL_ALLREDUCE, "staged_by_two_push", 4, 2), 1);
  expect_per_call(turns(COLL_ALLREDUCE, "staged_by_two", 4, 2), 2);
}

Test(turns, tell_who_does_more_than_others) {
  static const struct {
    const char *name;
    bool uneven;
  } plans[] = {{"allpairs", false}, {"twophase_push", false}, {"mapped_by_two", true}};
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
    tune_profile_t profile = {0};
    cr_assert_eq(algo_find(COLL_ALLREDUCE, plans[i].name, &profile.algo), COLL_OK);
    cr_assert_eq(tune_sched_sim(&profile, 8, 2), COLL_OK);
    cr_expect_eq(profile.uneven, plans[i].uneven, "%s", plans[i].name);
  }
}

/* Of each half of the result, three ranks of its owner's core and four of the other one fetch it.
 */
Test(turns, bring_a_core_once_what_its_ranks_fetch) {
  tune_profile_t before, after;
  const algo_t *algo;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "staged_by_two", &algo), COLL_OK);
  cr_assert_eq(tune_profile_make(algo, 8, &before), COLL_OK);
  after = before;
  cr_assert_eq(tune_sched_sim(&after, 8, 2), COLL_OK);
  int64_t again = before.all.chunks[TUNE_PULL] - after.all.chunks[TUNE_PULL];
  cr_expect_eq(again, 2 * (2 + 3), "%ld, not 10", again);
  cr_expect_eq(after.all.chunks[TUNE_NEAR] - before.all.chunks[TUNE_NEAR], again);
}

/* All plans there are come to their end. */
Test(turns, of_every_plan) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int size = 2; size <= TUNE_WHOLE; size += 7) {
        tune_profile_t profile = {.algo = algo};
        cr_assert_eq(tune_sched_sim(&profile, size, 1 + size / 6), COLL_OK, "%s",
                     base_last_error());
        cr_expect(profile.turns > 0);
      }
    }
  }
}
