/* What the structural check counts: signals of a lane to a peer. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

enum { STEPS_MAX = 3 * PLAN_SIGNALS_MAX };

/* Rank 0's program in a barrier of 3 ranks. */
typedef struct scene {
  plan_step_t steps[PLAN_LANES_MAX][STEPS_MAX];
  plan_program_t programs[3];
  plan_t plan;
} scene_t;

static void set_scene(scene_t *scene) {
  *scene = (scene_t){.plan = {.shape = {COLL_BARRIER, 3, 0},
                              .algorithm = "signals",
                              .parts = 1,
                              .lanes = 2,
                              .reach = PLAN_REACH_SCRATCH,
                              .programs = scene->programs}};
  for (int lane = 0; lane < PLAN_LANES_MAX; lane++) {
    scene->programs[0].lanes[lane].steps = scene->steps[lane];
  }
}

static void add(scene_t *scene, int lane, plan_step_kind_t kind, int32_t peer, int times) {
  plan_lane_t *to = &scene->programs[0].lanes[lane];
  for (int i = 0; i < times; i++) {
    cr_assert_lt(to->count, STEPS_MAX);
    to->steps[to->count++] = (plan_step_t){.kind = kind, .signal.peer = peer};
  }
}

Test(check, allows_so_many_signals_of_each_lane_to_each_peer) {
  scene_t scene;
  set_scene(&scene);
  for (int lane = 0; lane < PLAN_LANES_MAX; lane++) {
    add(&scene, lane, PLAN_SIGNAL, 1, PLAN_SIGNALS_MAX);
    add(&scene, lane, PLAN_SIGNAL, 2, PLAN_SIGNALS_MAX);
    add(&scene, lane, PLAN_WAIT, 1, PLAN_SIGNALS_MAX);
  }
  cr_assert_eq(plan_check_program(&scene.plan, 0), COLL_OK, "%s", base_last_error());
}

Test(check, refuses_a_signal_too_many) {
  for (int lane = 0; lane < PLAN_LANES_MAX; lane++) {
    scene_t scene;
    char place[32];
    set_scene(&scene);
    add(&scene, lane, PLAN_SIGNAL, 2, PLAN_SIGNALS_MAX);
    add(&scene, lane, PLAN_SIGNAL, 1, 1);
    add(&scene, lane, PLAN_SIGNAL, 2, 1);
    cr_assert_eq(plan_check_program(&scene.plan, 0), COLL_ERROR_INVALID);
    snprintf(place, sizeof place, "lane %d step %d", lane, PLAN_SIGNALS_MAX + 1);
    cr_assert_not_null(strstr(base_last_error(), place), "%s", base_last_error());
    cr_assert_not_null(strstr(base_last_error(), "signals rank 2"), "%s", base_last_error());
  }
}
