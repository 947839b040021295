/* All kinds and shapes up to 16 stages and 64 micro-batches (with a sanitizer fewer) are proved;
 * what the checker reports equals the closed values; shapes that a kind cannot have are refused
 * with a sentence. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sample.h"
#include "libtrain/schedule/check.h"
#include "libtrain/schedule/formula.h"

enum {
  MAX_STAGES = HARNESS_BUILD == HARNESS_PLAIN ? 16 : 5,
  MAX_BATCHES = HARNESS_BUILD == HARNESS_PLAIN ? 64 : 12
};

/* Proves the schedule and compares the report with the closed values. */
static void prove(train_schedule_shape_t shape) {
  train_schedule_t *schedule;
  train_schedule_report_t report;
  double most_versions = 0;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_OK, "%s", base_last_error());
  cr_assert_eq(train_schedule_check(schedule, &report), COLL_OK, "%s p %d m %d steps %d: %s",
               train_schedule_names[shape.kind], shape.stages, shape.micro_batches, shape.steps,
               base_last_error());
  shape = schedule->shape;
  for (int stage = 0; stage < shape.stages; stage++) {
    cr_assert_eq(report.stages[stage].live, train_schedule_live_limit(&shape, stage),
                 "%s p %d m %d steps %d stage %d: live %d", train_schedule_names[shape.kind],
                 shape.stages, shape.micro_batches, shape.steps, stage, report.stages[stage].live);
    if (shape.kind == TRAIN_SCHEDULE_1F1B) {
      cr_assert_leq(report.stages[stage].live, shape.stages - stage);
    }
    cr_assert_leq(report.stages[stage].slots, report.stages[stage].live);
    cr_assert_leq(report.stages[stage].versions, train_schedule_versions_limit(&shape));
    most_versions = fmax(most_versions, report.stages[stage].versions);
  }
  cr_assert_eq(most_versions, train_schedule_versions_limit(&shape),
               "%s p %d m %d steps %d versions %g", train_schedule_names[shape.kind], shape.stages,
               shape.micro_batches, shape.steps, most_versions);
  cr_assert_eq(report.staleness, train_schedule_staleness_limit(&shape));
  cr_assert_eq(report.window, 1);
  train_schedule_report_free(&report);
  train_schedule_destroy(schedule);
}

static void prove_all(train_schedule_kind_t kind) {
  for (int stages = 1; stages <= MAX_STAGES; stages++) {
    for (int count = 1; count <= MAX_BATCHES; count++) {
      prove((train_schedule_shape_t){kind, stages, count, 1, 1, 1});
      if (count % 3 == 0) prove((train_schedule_shape_t){kind, stages, count, 3, 1, 1});
    }
  }
}

Test(check, naive_gpipe_and_1f1b_are_proved) {
  prove_all(TRAIN_SCHEDULE_NAIVE);
  prove_all(TRAIN_SCHEDULE_GPIPE);
  prove_all(TRAIN_SCHEDULE_1F1B);
}

Test(check, split_and_asynchronous_kinds_are_proved) {
  prove_all(TRAIN_SCHEDULE_ZB_H1);
  prove_all(TRAIN_SCHEDULE_PIPEDREAM);
  prove_all(TRAIN_SCHEDULE_PIPEDREAM_2BW);
}

Test(check, interleaved_is_proved) {
  for (int stages = 1; stages <= MAX_STAGES; stages++) {
    for (int groups = 1; groups * stages <= MAX_BATCHES; groups++) {
      for (int chunks = 2; chunks <= 4; chunks++) {
        prove((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, stages, groups * stages,
                                       groups % 3 + 1, chunks, 1});
      }
    }
  }
}

Test(check, terapipe_is_proved) {
  for (int stages = 1; stages <= MAX_STAGES; stages++) {
    for (int count = 1; count <= MAX_BATCHES; count++) {
      int slices = 1 + (stages + count) % 8;
      prove((train_schedule_shape_t){TRAIN_SCHEDULE_TERAPIPE, stages, count, 1, 1, slices});
    }
  }
}

static void refuse(train_schedule_shape_t shape, const char *words) {
  train_schedule_t *schedule;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), words) != NULL, "'%s' lacks '%s'", base_last_error(), words);
}

Test(check, shapes_that_a_kind_cannot_have_are_refused) {
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 0, 8, 1, 1, 1}, "1 to 1024 stages, not 0");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 4, 0, 1, 1, 1}, "micro-batches, not 0");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_1F1B, 4, 8, 1, 2, 1}, "use interleaved");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_GPIPE, 4, 8, 1, 1, 2}, "use terapipe");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, 4, 10, 1, 2, 1},
         "10 is no multiple of that; use 12 or 8, or another schedule");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, 4, 2, 1, 2, 1}, "use 4, or another");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_INTERLEAVED, 4, 8, 1, 1, 1}, "with 1 it is 1f1b");
  refuse((train_schedule_shape_t){TRAIN_SCHEDULE_GPIPE, 1024, 1 << 24, 1 << 24, 1, 1},
         "more than 2^26 actions");
}

/* ---- messages of the checker ---- */

static train_schedule_t *make_1f1b(void) {
  const train_schedule_shape_t shape = {TRAIN_SCHEDULE_1F1B, 2, 3, 1, 1, 1};
  train_schedule_t *schedule;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_OK);
  return schedule;
}

static void fails(train_schedule_t *schedule, const char *words) {
  train_schedule_report_t report;
  cr_assert_eq(train_schedule_check(schedule, &report), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), words) != NULL, "'%s' lacks '%s'", base_last_error(), words);
  train_schedule_destroy(schedule);
}

static void swap(train_schedule_t *schedule, size_t a, size_t b) {
  train_action_t kept = schedule->actions[a];
  schedule->actions[a] = schedule->actions[b];
  schedule->actions[b] = kept;
}

/* The programs are F0 F1 B0 F2 B1 B2 U and F0 B0 F1 B1 F2 B2 U. */
Test(check, messages_name_stage_action_and_rule) {
  train_schedule_t *schedule = make_1f1b();
  swap(schedule, 5, 6);
  fails(schedule, "stage 0: update after micro-batch 2 comes before some of its gradients");
  schedule = make_1f1b();
  schedule->actions[3].micro_batch = 1;
  fails(schedule, "stage 0: forward of micro-batch 1 comes twice");
  schedule = make_1f1b();
  swap(schedule, 7, 8);
  fails(schedule, "stage 1: backward of micro-batch 0 comes before the forward pass");
  schedule = make_1f1b();
  swap(schedule, 0, 1);
  fails(schedule,
        "stage 1: forward of micro-batch 0 would receive the activations of micro-batch 1");
  schedule = make_1f1b();
  swap(schedule, 8, 9);
  fails(schedule,
        "holds the activations of 2 micro-batches at a time; schedule 1f1b needs at most 1");
}

Test(check, a_deadlock_says_who_waits_for_whom) {
  const train_schedule_shape_t shape = {TRAIN_SCHEDULE_GPIPE, 2, 2, 1, 1, 1};
  train_schedule_t *schedule;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_OK);
  swap(schedule, 1, 2); /* F0 B0 F1 B1 U and F0 F1 B0 B1 U */
  fails(schedule,
        "deadlock: stage 0 waits for the gradients from stage 1 before backward of micro-batch 0; "
        "stage 1 waits for the activations from stage 0 before forward of micro-batch 1");
}

/* All stages exchange the same two backward passes, so that messages still fit. */
Test(check, backward_slices_of_two_micro_batches_do_not_alternate) {
  const train_schedule_shape_t shape = {TRAIN_SCHEDULE_TERAPIPE, 2, 2, 1, 1, 2};
  train_schedule_t *schedule;
  train_schedule_report_t report;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_OK);
  for (int stage = 0; stage < shape.stages; stage++) {
    train_action_t *backward = &schedule->actions[schedule->first[stage]] + 4;
    train_action_t second = backward[1];
    cr_assert(second.kind == TRAIN_BACKWARD && second.micro_batch == 0 && second.slice == 0);
    backward[1] = backward[2];
    backward[2] = second;
  }
  cr_assert_eq(train_schedule_check(schedule, &report), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(),
                   "micro-batch 0, slice 0 comes after a backward pass of "
                   "another micro-batch") != NULL,
            "%s", base_last_error());
  train_schedule_destroy(schedule);
}
