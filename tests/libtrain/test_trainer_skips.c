/*
 * Steps that all ranks skip because a loss or a gradient is not finite, the end of runs in which
 * that does not stop, and dynamic loss scaling.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "libtrain/files/model_file.h"
#include "trainer_jobs.h"

TestSuite(trainer_skips, .init = trainer_setup, .fini = trainer_teardown);

/* Runs with an infinite gradient on one rank in steps 7 and 8: no rank changes its parameters in
 * these steps, and training continues with the steps after them. */
static void check_skips(int size, int stage, fault_kind_t kind) {
  static job_t jobs[RANKS_MAX];
  start_faulty_jobs(size, jobs, kind, 7, 8);
  for (int rank = 0; rank < size; rank++) jobs[rank].store_options.stage = stage;
  run_jobs(size, jobs);
  check_all_ok(size, jobs);
  for (int rank = 0; rank < size; rank++) {
    const job_t *job = &jobs[rank];
    for (int step = 2; step <= STEPS; step++) {
      bool skipped = step == 7 || step == 8;
      bool unchanged = job->digests[step - 1] == job->digests[step - 2];
      cr_assert_eq(job->skipped[step - 1], skipped, "%d ranks, stage %d: rank %d, step %d", size,
                   stage, rank, step);
      cr_assert_eq(unchanged, skipped, "%d ranks, stage %d: rank %d, step %d", size, stage, rank,
                   step);
    }
    cr_assert_arr_eq(job->digests, jobs[0].digests, sizeof job->digests);
    cr_assert_eq(job->metadata.position.step, STEPS);
    cr_assert_eq(job->metadata.position.sequences, STEPS * 8);
    cr_assert_eq(job->metadata.position.skipped, 2);
    cr_assert_eq(job->scales[STEPS - 1], 1.0);
  }
  cr_assert_lt(jobs[0].result.held_out.loss, 3.5);
  free_jobs(size, jobs);
}

Test(trainer_skips, all_ranks_skip_a_step_with_an_infinite_gradient) {
  for (int size = 1; size <= RANKS_MAX; size *= 2) {
    check_skips(size, 0, FAULT_GRADIENT);
    check_skips(size, TRAIN_STAGE_MAX, FAULT_GRADIENT);
  }
}

Test(trainer_skips, all_ranks_skip_a_step_whose_loss_is_nan_on_one_rank) {
  check_skips(2, 1, FAULT_LOSS);
}

/* Skipping the first step must give the bits of a run that starts with the second batch: the first
 * update is number 1 for AdamW's bias correction. */
Test(trainer_skips, adamw_does_not_count_skipped_steps) {
  static job_t skipping[1], shifted[1];
  start_faulty_jobs(1, skipping, FAULT_GRADIENT, 1, 1);
  start_jobs(1, shifted);
  shifted->metadata.position.sequences = 8;
  shifted->options.steps = 1;
  skipping->options.steps = 2;
  shifted->options.evaluations = skipping->options.evaluations = 1;
  run_jobs(1, skipping);
  run_jobs(1, shifted);
  check_all_ok(1, skipping);
  check_all_ok(1, shifted);
  cr_assert_eq(skipping->result.last.rate, shifted->result.last.rate);
  cr_assert(same_parameters(skipping, shifted));
  free_jobs(1, skipping);
  free_jobs(1, shifted);
}

/* Runs jobs that end with the sentence in a step after the checkpoint of step 20, which stays
 * valid. */
static void check_ends(int size, job_t *jobs, const char *sentence) {
  const char *path = folder_path(&trainer_folder, "ends"),
             *valid = folder_path(&trainer_folder, "valid");
  for (int rank = 0; rank < size; rank++) {
    jobs[rank].options.checkpoint = path;
    jobs[rank].copy = rank == 0 ? valid : NULL;
  }
  run_jobs(size, jobs);
  check_all_failed(size, jobs, sentence);
  cr_assert(jobs[0].copied);
  size_t count, valid_count;
  void *bytes = folder_read(path, &count), *valid_bytes = folder_read(valid, &valid_count);
  cr_assert_eq(count, valid_count);
  cr_assert_arr_eq(bytes, valid_bytes, count);
  train_model_file_t *file;
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK, "%s", base_last_error());
  cr_assert_eq(file->metadata.position.step, STEPS / 2);
  train_model_file_close(file);
  free(bytes);
  free(valid_bytes);
  unlink(path);
  unlink(valid);
  free_jobs(size, jobs);
}

Test(trainer_skips, run_ends_if_gradients_stay_infinite) {
  static job_t jobs[4];
  start_faulty_jobs(4, jobs, FAULT_GRADIENT, 25, STEPS);
  check_ends(4, jobs, "the gradient norm is not finite at step 27 (loss ");
  start_faulty_jobs(4, jobs, FAULT_GRADIENT, 25, STEPS);
  for (int rank = 0; rank < 4; rank++) jobs[rank].store_options.stage = 3;
  check_ends(4, jobs,
             ": the gradient of h.1.mlp.c_fc.weight (layer 1) is the first that is not finite; "
             "lower --lr; the last checkpoint is unchanged");
}

Test(trainer_skips, run_ends_if_the_loss_stays_nan) {
  static job_t jobs[2];
  start_faulty_jobs(2, jobs, FAULT_LOSS, 30, STEPS);
  check_ends(2, jobs, "the loss is not finite at step 32 (loss nan, gradient norm ");
  start_faulty_jobs(2, jobs, FAULT_LOSS, 30, STEPS); /* a smaller loss scale does not help */
  jobs[0].options.loss_scaling = jobs[1].options.loss_scaling = true;
  check_ends(2, jobs, "the loss is not finite at step 32 (loss nan, gradient norm ");
}

Test(trainer_skips, only_consecutive_skipped_steps_end_the_run) {
  static const fault_kind_t kinds[] = {FAULT_GRADIENT, FAULT_LOSS};
  for (int i = 0; i < 2; i++) {
    static job_t jobs[2];
    start_faulty_jobs(2, jobs, kinds[i], 2, STEPS);
    for (int rank = 0; rank < 2; rank++) {
      jobs[rank].fault.row = TRAIN_SKIPS_MAX - 1;
      jobs[rank].options.loss_scaling = kinds[i] == FAULT_LOSS;
    }
    run_jobs(2, jobs);
    check_all_ok(2, jobs);
    cr_assert_eq(jobs[0].metadata.position.skipped, 26);
    free_jobs(2, jobs);
  }
}

Test(trainer_skips, loss_scaling_does_not_change_float32_results) {
  static job_t plain[2], scaled[2];
  start_jobs(2, plain);
  start_jobs(2, scaled);
  for (int rank = 0; rank < 2; rank++) {
    plain[rank].micro_batches = scaled[rank].micro_batches = 2;
    scaled[rank].options.loss_scaling = true;
  }
  run_jobs(2, plain);
  run_jobs(2, scaled);
  check_all_ok(2, plain);
  check_all_ok(2, scaled);
  cr_assert_eq(scaled->result.last.loss_scale, 65536.0);
  cr_assert_eq(scaled->metadata.loss_scale.good_steps, STEPS);
  cr_assert_eq(plain->metadata.loss_scale.scale, 0.0);
  cr_assert_eq(scaled->result.last.gradient_norm, plain->result.last.gradient_norm);
  cr_assert_arr_eq(scaled->losses, plain->losses, sizeof plain->losses);
  cr_assert_arr_eq(scaled->digests, plain->digests, sizeof plain->digests);
  free_jobs(2, plain);
  free_jobs(2, scaled);
}

Test(trainer_skips, loss_scale_is_halved_until_the_minimum_and_then_the_run_ends) {
  static job_t jobs[2];
  start_faulty_jobs(2, jobs, FAULT_GRADIENT, 22, STEPS);
  for (int rank = 0; rank < 2; rank++) {
    jobs[rank].options.loss_scaling = true;
    jobs[rank].metadata.loss_scale = (train_loss_scale_t){8, TRAIN_LOSS_SCALE_GOOD_STEPS - 10};
  }
  check_ends(2, jobs, "the gradient norm is not finite at step 28 (loss ");
  for (int step = 1; step < 28; step++) { /* doubled after step 10, halved after step 22 */
    double scale = step <= 10 ? 8 : step <= 22 ? 16 : step <= 26 ? 16 >> (step - 22) : 1;
    cr_assert_eq(jobs[1].scales[step - 1], scale, "%g at step %d", jobs[1].scales[step - 1], step);
  }
}

Test(trainer_skips, resuming_restores_the_loss_scale_and_the_skipped_steps) {
  static job_t whole[2], resumed[2];
  const char *path = folder_path(&trainer_folder, "scaled"),
             *half = folder_path(&trainer_folder, "scaled.half");
  start_faulty_jobs(2, whole, FAULT_GRADIENT, 12, 13);
  start_jobs(2, resumed);
  for (int rank = 0; rank < 2; rank++) {
    whole[rank].options.checkpoint = path;
    whole[rank].options.loss_scaling = resumed[rank].options.loss_scaling = true;
    resumed[rank].resume = half;
  }
  whole->copy = half;
  run_jobs(2, whole);
  run_jobs(2, resumed);
  check_all_ok(2, whole);
  check_all_ok(2, resumed);
  for (int rank = 0; rank < 2; rank++) {
    const train_metadata_t *metadata = &resumed[rank].metadata;
    cr_assert_eq(metadata->loss_scale.scale, 16384.0);
    cr_assert_eq(metadata->loss_scale.good_steps, STEPS - 13);
    cr_assert_eq(metadata->position.skipped, 2);
    cr_assert(same_parameters(&whole[rank], &resumed[rank]));
  }
  free_jobs(2, whole);
  free_jobs(2, resumed);
}
