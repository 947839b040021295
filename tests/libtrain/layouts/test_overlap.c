/*
 * Collectives of the tensor axis that overlap with matrix products. Backward passes that overlap
 * have the bits of those that do not, and so have chunks; the number of chunks changes the bits
 * within the bounds of the parity matrix. What is sent does not change.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "libtrain/layouts/compare.h"
#include "libtrain/trainer_jobs.h"

#define BITS_STEPS 6
#define SP .sequence_parallel = true

/* ---- bits ---- */

static void compare_bits(const layout_trial_t *trial, const layout_outcome_t *a,
                         const layout_outcome_t *b) {
  char text[200];
  size_t bytes = a->layout->parameter_count * sizeof(float);
  layout_trial_text(trial, text);
  cr_assert(memcmp(a->losses, b->losses, sizeof a->losses) == 0, "%s: losses differ", text);
  cr_assert(memcmp(a->norms, b->norms, sizeof a->norms) == 0, "%s: norms differ", text);
  cr_assert(a->evaluated == b->evaluated, "%s: evaluated losses differ", text);
  cr_assert(memcmp(a->gradients, b->gradients, bytes) == 0, "%s: gradients differ", text);
  cr_assert(memcmp(a->weights, b->weights, bytes) == 0, "%s: weights differ", text);
}

/* The trial as it is, and with calls that complete before they return. */
static void compare_serial(layout_trial_t trial) {
  trial.steps = BITS_STEPS;
  layout_outcome_t overlapped = layout_train(&trial);
  trial.serial = true;
  layout_outcome_t serial = layout_train(&trial);
  compare_bits(&trial, &overlapped, &serial);
  if (trial.tensor_overlap == 1) {
    trial.tensor_overlap = 0;
    layout_outcome_t off = layout_train(&trial);
    compare_bits(&trial, &overlapped, &off);
    layout_outcome_free(&off);
  }
  layout_outcome_free(&serial);
  layout_outcome_free(&overlapped);
}

#define SAME_BITS(...) compare_serial((layout_trial_t){__VA_ARGS__})

Test(overlap, backward_has_the_bits_of_no_overlap) {
  SAME_BITS(.tp = 2, .tensor_overlap = 1);
  SAME_BITS(.tp = 4, .tensor_overlap = 1, .micro_batches = 2);
  SAME_BITS(.tp = 2, SP, .tensor_overlap = 1);
  SAME_BITS(.tp = 4, SP, .tensor_overlap = 1, .precision = TRAIN_PRECISION_BF16);
}

Test(overlap, chunks_have_the_bits_of_chunks_that_do_not_overlap) {
  SAME_BITS(.tp = 2, .tensor_overlap = 3);
  SAME_BITS(.tp = 4, .tensor_overlap = 4, .micro_batches = 2);
  SAME_BITS(.tp = 2, SP, .tensor_overlap = 2);
  SAME_BITS(.tp = 4, SP, .tensor_overlap = 3, .precision = TRAIN_PRECISION_BF16);
}

/* ---- parity ---- */

/* A micro-batch of 4 to 16 sequences has 128 to 512 rows; with sequence parallelism a rank has 32
 * to 256, which are 2 chunks or more, and in some trials an uneven last one. */
static const layout_trial_t trials[] = {
    {.tp = 4, .tensor_overlap = 1, .micro_batches = 4},
    {.tp = 2, .tensor_overlap = 3, .micro_batches = 2},
    {.tp = 4, .tensor_overlap = TRAIN_TENSOR_CHUNKS_MAX},
    {.tp = 4, SP, .tensor_overlap = 1, .micro_batches = 4},
    {.tp = 2, SP, .tensor_overlap = 5, .micro_batches = 2},
    {.tp = 4, SP, .tensor_overlap = 2, .micro_batches = 4},
};

static const layout_trial_t combined[] = {
    {.tp = 2, SP, .tensor_overlap = 2, .recompute = TRAIN_RECOMPUTE_BLOCK},
    {.tp = 2, .dp = 2, .tensor_overlap = 2, .zero = 3, .micro_batches = 2},
    {.tp = 2, .cp = 2, SP, .tensor_overlap = 2, .micro_batches = 2},
    {.tp = 2,
     .pp = 2,
     SP,
     .tensor_overlap = 2,
     .micro_batches = 4,
     .schedule = TRAIN_SCHEDULE_ZB_H1},
    {.tp = 2, .pp = 2, .tensor_overlap = 3, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B},
};

Test(overlap, tensor_ranks_train_as_one_rank) {
  layout_compare_all(NULL, trials, sizeof trials / sizeof trials[0]);
}

Test(overlap, combined_with_other_axes) {
  layout_compare_all(NULL, combined, sizeof combined / sizeof combined[0]);
}

/* ---- the choice ---- */

TestSuite(overlap_choice_of_runs, .init = trainer_setup, .fini = trainer_teardown);

/* Whatever each rank has measured, all have the same in every step. */
Test(overlap_choice_of_runs, is_the_same_on_all_ranks) {
  static job_t alone[1], jobs[4];
  start_jobs(1, alone);
  start_jobs(4, jobs);
  for (int rank = 0; rank < 4; rank++) {
    jobs[rank].tp = jobs[rank].pp = 2;
    jobs[rank].micro_batches = 2;
    jobs[rank].options.schedule = TRAIN_SCHEDULE_1F1B;
    jobs[rank].options.choose_tensor_overlap = true;
  }
  run_jobs(1, alone);
  run_jobs(4, jobs);
  check_all_ok(1, alone);
  check_all_ok(4, jobs);
  for (int rank = 0; rank < 4; rank++) {
    cr_assert_eq(jobs[rank].choices, 1);
    cr_assert_eq(jobs[rank].chosen, jobs[0].chosen);
    cr_assert_eq(jobs[rank].overlaps[STEPS - 1], jobs[0].chosen);
    for (int step = 0; step < STEPS; step++) {
      cr_assert_eq(jobs[rank].overlaps[step], jobs[0].overlaps[step]);
      cr_assert_float_eq(jobs[rank].losses[step], alone->losses[step], 1e-5f * alone->losses[step],
                         "rank %d, step %d", rank, step + 1);
    }
  }
  cr_assert_eq(jobs[0].overlaps[5], 4);
  free_jobs(1, alone);
  free_jobs(4, jobs);
}
