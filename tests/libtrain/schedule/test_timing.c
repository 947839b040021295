/* The simulated bubble equals the closed formula for every kind, up to 16 stages and 64
 * micro-batches; times of single actions; latency; unequal stages and slices. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "harness/sample.h"
#include "libtrain/schedule/formula.h"
#include "libtrain/schedule/timing.h"

static train_schedule_t *make(train_schedule_shape_t shape) {
  train_schedule_t *schedule;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_OK, "%s", base_last_error());
  return schedule;
}

static void compare(train_schedule_shape_t shape, train_schedule_costs_t costs) {
  train_schedule_t *schedule = make(shape);
  train_timing_t timing;
  cr_assert_eq(train_schedule_time(schedule, &costs, &timing), COLL_OK, "%s", base_last_error());
  double expected = train_schedule_bubble(&schedule->shape, &costs);
  cr_assert_float_eq(timing.bubble, expected, 1e-12,
                     "%s p %d m %d steps %d v %d slices %d costs %g,%g,%g: %.15g, formula %.15g",
                     train_schedule_names[shape.kind], shape.stages, shape.micro_batches,
                     shape.steps, shape.chunks, shape.slices, costs.forward, costs.input,
                     costs.weight, timing.bubble, expected);
  train_timing_free(&timing);
  train_schedule_destroy(schedule);
}

/* Passes of different lengths; only where the formula holds. */
static const train_schedule_costs_t some_costs[] = {
    {.forward = 1, .input = 1, .weight = 1}, {.forward = 1, .input = 2, .weight = 0.5},
    {.forward = 2, .input = 2, .weight = 1}, {.forward = 1, .input = 1, .weight = 2},
    {.forward = 3, .input = 1, .weight = 1}, {.forward = 1, .input = 3, .weight = 2}};

enum { SOME_COSTS = sizeof some_costs / sizeof some_costs[0] };

static void compare_all(train_schedule_kind_t kind, int chunks, int slices, int costs) {
  int most = HARNESS_BUILD == HARNESS_PLAIN ? 16 : 5;
  for (int stages = 1; stages <= most; stages++) {
    int step = kind == TRAIN_SCHEDULE_INTERLEAVED ? stages : 1;
    for (int count = step; count <= 64; count += step) {
      for (int steps = 1; steps <= 3; steps += 2) {
        for (int i = 0; i < costs; i++) {
          compare((train_schedule_shape_t){kind, stages, count, steps, chunks, slices},
                  some_costs[i]);
        }
      }
    }
  }
}

Test(timing, bubble_of_naive) {
  compare_all(TRAIN_SCHEDULE_NAIVE, 1, 1, SOME_COSTS);
}

Test(timing, bubble_of_gpipe) {
  compare_all(TRAIN_SCHEDULE_GPIPE, 1, 1, SOME_COSTS);
}

Test(timing, bubble_of_1f1b) {
  compare_all(TRAIN_SCHEDULE_1F1B, 1, 1, SOME_COSTS);
}

Test(timing, bubble_of_interleaved) {
  compare_all(TRAIN_SCHEDULE_INTERLEAVED, 2, 1, SOME_COSTS);
  compare_all(TRAIN_SCHEDULE_INTERLEAVED, 4, 1, SOME_COSTS);
}

Test(timing, bubble_of_zb_h1) {
  compare_all(TRAIN_SCHEDULE_ZB_H1, 1, 1, SOME_COSTS);
}

Test(timing, bubble_of_pipedream) {
  compare_all(TRAIN_SCHEDULE_PIPEDREAM, 1, 1, SOME_COSTS);
}

Test(timing, bubble_of_pipedream_2bw) {
  compare_all(TRAIN_SCHEDULE_PIPEDREAM_2BW, 1, 1, SOME_COSTS);
}

Test(timing, bubble_of_terapipe) {
  compare_all(TRAIN_SCHEDULE_TERAPIPE, 1, 2, 2);
  compare_all(TRAIN_SCHEDULE_TERAPIPE, 1, 7, 1);
}

/* As the papers print them. */
Test(timing, formulas_are_those_of_the_papers) {
  const train_schedule_costs_t equal = {.forward = 1, .input = 1, .weight = 1};
  const train_schedule_costs_t some = {.forward = 3, .input = 4, .weight = 2};
  const train_schedule_shape_t p4m8 = {TRAIN_SCHEDULE_1F1B, 4, 8, 1, 1, 1};
  const train_schedule_shape_t p8v2 = {TRAIN_SCHEDULE_INTERLEAVED, 8, 16, 1, 2, 1};
  const train_schedule_shape_t zb = {TRAIN_SCHEDULE_ZB_H1, 4, 8, 1, 1, 1};
  cr_assert_float_eq(train_schedule_bubble(&p4m8, &equal), 3.0 / 11, 1e-15);
  cr_assert_float_eq(train_schedule_bubble(&p8v2, &equal), 7.0 / (2 * 16 + 7), 1e-15);
  double idle = 3 * (3 + 4 - 2), work = 8 * (3 + 4 + 2); /* (p-1)(f+b-w), m(f+b+w) */
  cr_assert_float_eq(train_schedule_bubble(&zb, &some), idle / (work + idle), 1e-15);
}

/* ---- single actions ---- */

static void has_spans(train_schedule_shape_t shape, train_schedule_costs_t costs,
                      const double spans[][2], size_t count) {
  train_schedule_t *schedule = make(shape);
  train_timing_t timing;
  cr_assert_eq(train_schedule_time(schedule, &costs, &timing), COLL_OK, "%s", base_last_error());
  cr_assert_eq(schedule->first[shape.stages], count);
  for (size_t i = 0; i < count; i++) {
    cr_assert_float_eq(timing.spans[i].start, spans[i][0], 1e-12, "action %zu: %g", i,
                       timing.spans[i].start);
    cr_assert_float_eq(timing.spans[i].end, spans[i][1], 1e-12, "action %zu: %g", i,
                       timing.spans[i].end);
  }
  train_timing_free(&timing);
  train_schedule_destroy(schedule);
}

/* F0 F1 B0 B1 U and F0 B0 F1 B1 U; a message takes half a unit. */
Test(timing, of_each_action) {
  const double spans[][2] = {{0, 1},     {1, 2},     {5, 7},     {8, 10},    {10, 11},
                             {1.5, 2.5}, {2.5, 4.5}, {4.5, 5.5}, {5.5, 7.5}, {7.5, 8.5}};
  has_spans(
      (train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 2, 2, 1, 1, 1},
      (train_schedule_costs_t){.forward = 1, .input = 1, .weight = 1, .update = 1, .latency = 0.5},
      spans, 10);
}

/* The second stage is twice as slow. */
Test(timing, of_unequal_stages) {
  const double parts[] = {1, 2};
  const double spans[][2] = {{0, 1}, {1, 2}, {7, 9}, {13, 15}, {15, 15},
                             {1, 3}, {3, 7}, {7, 9}, {9, 13},  {13, 13}};
  has_spans(
      (train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 2, 2, 1, 1, 1},
      (train_schedule_costs_t){.forward = 1, .input = 1, .weight = 1, .virtual_stage_parts = parts},
      spans, 10);
}

/* Slices of a quarter and three quarters; one stage with two chunks sends nothing. */
Test(timing, of_slices_and_chunks) {
  const double parts[] = {0.25, 0.75};
  const double slices[][2] = {{0, 1}, {1, 4}, {4, 10}, {10, 12}, {12, 12}};
  const double chunks[][2] = {{0, 2}, {2, 4}, {4, 8}, {8, 12}, {12, 12}};
  has_spans((train_schedule_shape_t){TRAIN_SCHEDULE_TERAPIPE, 1, 1, 1, 1, 2},
            (train_schedule_costs_t){.forward = 4, .input = 4, .weight = 4, .slice_parts = parts},
            slices, 5);
  has_spans((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, 1, 1, 1, 2, 1},
            (train_schedule_costs_t){.forward = 4, .input = 4, .weight = 4, .latency = 9}, chunks,
            5);
}

Test(timing, a_schedule_that_deadlocks_has_none) {
  train_schedule_t *schedule = make((train_schedule_shape_t){TRAIN_SCHEDULE_GPIPE, 2, 1, 1, 1, 1});
  train_timing_t timing;
  const train_schedule_costs_t costs = {.forward = 1};
  train_action_t forward = schedule->actions[0];
  schedule->actions[0] = schedule->actions[1];
  schedule->actions[1] = forward;
  cr_assert_eq(train_schedule_time(schedule, &costs, &timing), COLL_ERROR_INVALID);
  train_schedule_destroy(schedule);
}
