/*
 * A run in which a rank is killed, resumed from its last checkpoint, ends with the bits of a run
 * that nothing disturbed. Schedules that do not wait for an update before the next batch are not
 * among these: their pipeline is empty at a checkpoint, and is not without one (test_pipedream.c).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/sample.h"
#include "libtrain/folder.h"
#include "libtrain/layouts/job.h"
#include "libtrain/layouts/victim.h"

#define TIMEOUT_MS 60000
#define STEPS 2 /* before the checkpoint, and after it */

typedef struct run {
  layout_trial_t trial;
  int victim; /* -1: none */
  int products;
} run_t;

static int body(party_rank_t *party) {
  const run_t *run = party->context;
  layout_trial_t trial = run->trial;
  train_ops_t ops = victim_ops();
  coll_status_t status, expected = run->victim >= 0 ? COLL_ERROR_RANK_LOST : COLL_OK;
  trial.ops = &ops;
  if (party->rank == run->victim) victim_die(run->products, trial.save);
  PARTY_TRY(layout_train_rank(party, &trial, &status));
  PARTY_REQUIRE(status == expected, "%s: %s", coll_status_string(status), base_last_error());
  return 0;
}

static void run_once(int ranks, const run_t *run) {
  harness_result_t result;
  char text[200];
  layout_trial_text(&run->trial, text);
  party_processes(ranks, TIMEOUT_MS, body, (void *)run, &result);
  for (int rank = 0; rank < ranks; rank++) {
    const harness_rank_t *end = &result.ranks[rank];
    bool as_meant = rank == run->victim ? end->end == HARNESS_KILLED
                                        : end->end == HARNESS_RETURNED && end->value == 0;
    cr_assert(as_meant, "%s: %s", text, result.text);
  }
}

static void check_same(const char *path, const char *expected, const layout_trial_t *trial) {
  size_t counts[2];
  char text[200], *bytes[2] = {folder_read(path, &counts[0]), folder_read(expected, &counts[1])};
  cr_assert(counts[0] == counts[1] && memcmp(bytes[0], bytes[1], counts[0]) == 0,
            "%s: the resumed run differs", layout_trial_text(trial, text));
  free(bytes[0]);
  free(bytes[1]);
}

static void restart(const layout_trial_t *trial, int ranks, int victim) {
  folder_t folder;
  folder_make(&folder);
  const char *whole = folder_path(&folder, "whole"), *half = folder_path(&folder, "half"),
             *resumed = folder_path(&folder, "resumed");
  run_t run = {.trial = *trial, .victim = -1};
  run.trial.steps = 2 * STEPS;
  run.trial.save = whole;
  run_once(ranks, &run);

  run.trial.save = half;
  run.trial.saved_step = STEPS;
  run.victim = victim;
  run.products = 3; /* in the middle of the step after the checkpoint */
  run_once(ranks, &run);

  run = (run_t){.trial = *trial, .victim = -1};
  run.trial.steps = STEPS;
  run.trial.resume = half;
  run.trial.save = resumed;
  run_once(ranks, &run);
  check_same(resumed, whole, trial);
  folder_remove(&folder);
}

/* The victims take turns. */
static void restart_all(const layout_trial_t trials[], const int ranks[], size_t count) {
  if (!harness_takes_processes()) cr_skip_test("the ranks are processes");
  for (size_t i = 0; i < count; i++) {
    if (harness_takes(HARNESS_MOMENTS, (unsigned)i))
      restart(&trials[i], ranks[i], (int)i % ranks[i]);
  }
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

Test(restart, of_schedules) {
  static const layout_trial_t trials[] = {
      {.pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_1F1B},
      {.pp = 2, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_NAIVE},
      {.pp = 4, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_GPIPE},
      {.pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_ZB_H1},
      {.pp = 2, .chunks = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_INTERLEAVED},
      {.pp = 4,
       .micro_batches = 2,
       .schedule = TRAIN_SCHEDULE_TERAPIPE,
       .slices = {3, {14, 10, 8}}},
  };
  static const int ranks[COUNT(trials)] = {4, 2, 4, 4, 2, 4};
  restart_all(trials, ranks, COUNT(trials));
}

Test(restart, of_axes) {
  static const layout_trial_t trials[] = {
      {.dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B},
      {.tp = 2, .sequence_parallel = true},
      {.cp = 2, .dp = 2},
      {.config = &layout_two_of_eight, .dp = 4, .ep = 2},
      {.dp = 2, .zero = 3},
      {.cp = 2, .context_kind = TRAIN_CONTEXT_ULYSSES},
  };
  static const int ranks[COUNT(trials)] = {8, 2, 4, 4, 2, 2};
  restart_all(trials, ranks, COUNT(trials));
}
