/* The structural check's limit on signals of a lane to a peer. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

enum { LANES = 2, STEPS_MAX = 3 * PLAN_SIGNALS_MAX };

/* Rank 0's program in a barrier of 3 ranks. */
typedef struct fixture {
  plan_step_t steps[LANES][STEPS_MAX];
  plan_lane_t lanes[LANES];
  plan_program_t programs[3];
  plan_t plan;
} fixture_t;

static void set_fixture(fixture_t *fixture) {
  *fixture = (fixture_t){.plan = {.shape = {COLL_BARRIER, 3, 0},
                                  .algorithm = "signals",
                                  .parts = 1,
                                  .lanes = LANES,
                                  .reach = PLAN_REACH_SCRATCH,
                                  .programs = fixture->programs}};
  fixture->programs[0].lanes = fixture->lanes;
  for (int lane = 0; lane < LANES; lane++) {
    fixture->programs[0].lanes[lane].steps = fixture->steps[lane];
  }
}

static void add(fixture_t *fixture, int lane, plan_step_kind_t kind, int32_t peer, int times) {
  plan_lane_t *to = &fixture->programs[0].lanes[lane];
  for (int i = 0; i < times; i++) {
    cr_assert_lt(to->count, STEPS_MAX);
    to->steps[to->count++] = (plan_step_t){.kind = kind, .signal.peer = peer};
  }
}

Test(check, allows_the_maximum_of_signals_per_lane_and_peer) {
  fixture_t fixture;
  set_fixture(&fixture);
  for (int lane = 0; lane < LANES; lane++) {
    add(&fixture, lane, PLAN_SIGNAL, 1, PLAN_SIGNALS_MAX);
    add(&fixture, lane, PLAN_SIGNAL, 2, PLAN_SIGNALS_MAX);
    add(&fixture, lane, PLAN_WAIT, 1, PLAN_SIGNALS_MAX);
  }
  cr_assert_eq(plan_check_program(&fixture.plan, 0), COLL_OK, "%s", base_last_error());
}

Test(check, rejects_one_signal_more_than_the_maximum) {
  for (int lane = 0; lane < LANES; lane++) {
    fixture_t fixture;
    char place[32];
    set_fixture(&fixture);
    add(&fixture, lane, PLAN_SIGNAL, 2, PLAN_SIGNALS_MAX);
    add(&fixture, lane, PLAN_SIGNAL, 1, 1);
    add(&fixture, lane, PLAN_SIGNAL, 2, 1);
    cr_assert_eq(plan_check_program(&fixture.plan, 0), COLL_ERROR_INVALID);
    snprintf(place, sizeof place, "lane %d step %d", lane, PLAN_SIGNALS_MAX + 1);
    cr_assert_not_null(strstr(base_last_error(), place), "%s", base_last_error());
    cr_assert_not_null(strstr(base_last_error(), "signals rank 2"), "%s", base_last_error());
  }
}
