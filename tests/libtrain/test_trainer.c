/*
 * The training loop on several ranks: equal losses for any number of ranks, identical bits on all
 * ranks, resuming, and common failure.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/model/sample.h"
#include "trainer_jobs.h"

TestSuite(trainer, .init = trainer_setup, .fini = trainer_teardown);

static void check_close(double one, double other, const char *what, int size) {
  cr_assert_float_eq(one, other, 1e-4 * fabs(one), "%s on %d ranks: %g, on one: %g", what, size,
                     other, one);
}

Test(trainer, losses_do_not_depend_on_the_number_of_ranks) {
  static job_t single[1], jobs[RANKS_MAX];
  start_jobs(1, single);
  run_jobs(1, single);
  check_all_ok(1, single);
  cr_assert_lt(single->result.held_out.loss, 3.0, "%g: the loss did not decrease",
               single->result.held_out.loss);
  for (int size = 2; size <= RANKS_MAX; size *= 2) {
    start_jobs(size, jobs);
    run_jobs(size, jobs);
    check_all_ok(size, jobs);
    for (int step = 0; step < STEPS; step++) {
      check_close((double)single->losses[step], (double)jobs[0].losses[step], "loss", size);
    }
    check_close(single->result.held_out.loss, jobs[0].result.held_out.loss, "held-out loss", size);
    cr_assert_eq(single->result.held_out.tokens, jobs[0].result.held_out.tokens);
    for (int rank = 1; rank < size; rank++) {
      cr_assert(same_parameters(&jobs[0], &jobs[rank]), "rank %d differs", rank);
      cr_assert_arr_eq(jobs[0].losses, jobs[rank].losses, sizeof jobs[0].losses);
    }
    free_jobs(size, jobs);
  }
  free_jobs(1, single);
}

Test(trainer, losses_do_not_depend_on_stage_or_micro_batches) {
  static job_t single[1], jobs[2];
  start_jobs(1, single);
  run_jobs(1, single);
  check_all_ok(1, single);
  for (int stage = 1; stage <= TRAIN_STAGE_MAX; stage++) {
    start_jobs(2, jobs);
    for (int rank = 0; rank < 2; rank++) {
      jobs[rank].store_options.stage = stage;
      jobs[rank].micro_batches = 2;
    }
    run_jobs(2, jobs);
    check_all_ok(2, jobs);
    for (int step = 0; step < STEPS; step++) {
      check_close((double)single->losses[step], (double)jobs[1].losses[step], "loss", 2);
    }
    check_close(single->result.held_out.loss, jobs[1].result.held_out.loss, "held-out loss", 2);
    cr_assert(same_parameters(&jobs[0], &jobs[1]));
    free_jobs(2, jobs);
  }
  free_jobs(1, single);
}

Test(trainer, ranks_without_windows_take_part_in_evaluation) {
  static job_t jobs[4];
  start_jobs(4, jobs);
  for (int rank = 0; rank < 4; rank++) {
    jobs[rank].store_options.stage = 3;
    jobs[rank].options.evaluation_tokens = 1;
  }
  run_jobs(4, jobs);
  check_all_ok(4, jobs);
  for (int rank = 0; rank < 4; rank++) {
    cr_assert_eq(jobs[rank].result.held_out.tokens, (uint64_t)trainer_config.context);
    cr_assert_eq(jobs[rank].result.held_out.loss, jobs[0].result.held_out.loss);
  }
  free_jobs(4, jobs);
}

Test(trainer, step_reports_communication_time) {
  static job_t jobs[2];
  start_jobs(2, jobs);
  for (int rank = 0; rank < 2; rank++) jobs[rank].store_options.stage = 2;
  run_jobs(2, jobs);
  check_all_ok(2, jobs);
  for (int rank = 0; rank < 2; rank++) {
    const train_step_t *last = &jobs[rank].result.last;
    cr_assert_eq(last->bytes_sent, 8 * jobs[rank].layout->parameter_count);
    cr_assert_gt(last->comm_ms, 0.0);
    cr_assert_gt(last->exposed_comm_ms, 0.0);
    cr_assert_lt(last->exposed_comm_ms, last->ms);
  }
  free_jobs(2, jobs);
}

Test(trainer, resuming_gives_the_same_result_as_one_run) {
  static job_t jobs[2], resumed[2]; /* different stages before and after */
  const char *whole = folder_path(&trainer_folder, "whole"),
             *half = folder_path(&trainer_folder, "half");
  const char *second = folder_path(&trainer_folder, "second");
  start_jobs(2, jobs);
  start_jobs(2, resumed);
  for (int rank = 0; rank < 2; rank++) {
    jobs[rank].options.checkpoint = whole;
    jobs[rank].store_options.stage = 1;
    resumed[rank].store_options.stage = 3;
    resumed[rank].options.checkpoint = second;
    resumed[rank].resume = half;
  }
  jobs[0].copy = half;
  run_jobs(2, jobs);
  cr_assert(jobs[0].copied);
  run_jobs(2, resumed);
  check_all_ok(2, jobs);
  check_all_ok(2, resumed);
  size_t count, second_count;
  void *bytes = folder_read(whole, &count), *second_bytes = folder_read(second, &second_count);
  cr_assert_eq(count, second_count);
  cr_assert_arr_eq(bytes, second_bytes, count);
  free(bytes);
  free(second_bytes);
  free_jobs(2, jobs);
  free_jobs(2, resumed);
}

Test(trainer, time_limit_stops_all_ranks_at_the_same_step) {
  static job_t jobs[2];
  start_jobs(2, jobs);
  for (int rank = 0; rank < 2; rank++) {
    jobs[rank].options.steps = STEPS;
    jobs[rank].options.seconds = rank == 0 ? 1e-3 : 1e3; /* only rank 0's clock counts */
  }
  run_jobs(2, jobs);
  check_all_ok(2, jobs);
  cr_assert_eq(jobs[0].metadata.position.step, jobs[1].metadata.position.step);
  cr_assert_lt(jobs[0].metadata.position.step, STEPS);
  cr_assert(same_parameters(&jobs[0], &jobs[1]));
  free_jobs(2, jobs);
}

Test(trainer, rejects_an_uneven_batch) {
  static job_t jobs[3];
  start_jobs(3, jobs);
  run_jobs(3, jobs);
  check_all_failed(3, jobs,
                   "a batch of 8 does not split evenly over 3 ranks in micro-batches of 2");
  free_jobs(3, jobs);
}

Test(trainer, rejects_different_options_on_ranks) {
  static job_t jobs[2];
  start_jobs(2, jobs);
  jobs[1].metadata.position.seed++;
  run_jobs(2, jobs);
  check_all_failed(2, jobs, "differ");
  free_jobs(2, jobs);
}

/* Only one rank reads the bad token. */
static void check_token_fails_all(const train_dataset_t *dataset, size_t at, const char *message) {
  static job_t jobs[3];
  start_jobs(3, jobs);
  for (int rank = 0; rank < 3; rank++) {
    jobs[rank].store_options.stage = 3;
    jobs[rank].options.batch = 9;
  }
  ((uint16_t *)dataset->shards->tokens)[at] = 300;
  run_jobs(3, jobs);
  check_all_failed(3, jobs, message);
  free_jobs(3, jobs);
}

Test(trainer, invalid_token_fails_all_ranks) {
  check_token_fails_all(&trainer_corpus.training, 1000,
                        "a test: token 300 at 1000 is beyond the vocabulary");
}

Test(trainer, invalid_held_out_token_fails_all_ranks) {
  check_token_fails_all(&trainer_corpus.held_out, 0,
                        "a test: token 300 at 0 is beyond the vocabulary");
}

Test(trainer, unwritable_checkpoint_fails_all_ranks_before_the_first_step) {
  static job_t jobs[2];
  start_jobs(2, jobs);
  for (int rank = 0; rank < 2; rank++) {
    jobs[rank].options.checkpoint = folder_path(&trainer_folder, "missing/model");
  }
  run_jobs(2, jobs);
  check_all_failed(2, jobs, "cannot write");
  cr_assert_eq(jobs[0].metadata.position.step, 0);
  free_jobs(2, jobs);
}

Test(trainer, nan_loss_keeps_the_last_checkpoint) {
  static job_t jobs[2];
  const char *path = folder_path(&trainer_folder, "model");
  folder_write(&trainer_folder, "model", "good", 4);
  start_jobs(2, jobs);
  for (int rank = 0; rank < 2; rank++) {
    jobs[rank].options.rate = 1e30;
    jobs[rank].options.evaluations = 1;
    jobs[rank].options.checkpoint = path;
  }
  run_jobs(2, jobs);
  check_all_failed(2, jobs, "not finite");
  size_t count;
  char *bytes = folder_read(path, &count);
  cr_assert_eq(count, 4);
  cr_assert_arr_eq(bytes, "good", 4);
  free(bytes);
  free_jobs(2, jobs);
}

static bool keep_byte(void *context, int32_t byte) {
  char **end = context;
  *(*end)++ = (char)byte;
  return true;
}

/* A model and its parameters, for train_extender_t. */
typedef struct extending {
  train_model_t *model;
  train_param_provider_t provider;
} extending_t;

static coll_status_t extend(void *context, const int32_t *tokens, int first, int count,
                            float *logits) {
  const extending_t *extending = context;
  return train_model_extend(extending->model, &extending->provider, tokens, first, count, logits);
}

Test(trainer, sample_continues_the_training_text) {
  static job_t job[1];
  start_jobs(1, job);
  job->options.rate = 1e-2;
  job->options.steps = STEPS_MAX;
  run_jobs(1, job);
  check_all_ok(1, job);
  const train_model_options_t options = {.sequences = 1};
  train_arena_t arena = {.layout = job->layout, .parameters = job->parameters};
  const int32_t prompt[] = {0, 's', 't', 'a', 't', 'i', 'c', ' ', 'i'};
  extending_t extending = {.provider = train_arena_provider(&arena)};
  const train_extender_t extender = {.context = job->layout->config.context,
                                     .vocabulary = job->layout->config.vocabulary,
                                     .extend = extend,
                                     .extending = &extending};
  cr_assert_eq(train_model_create(job->layout, &options, &extending.model), COLL_OK);
  char text[3][41] = {{0}};
  for (int i = 0; i < 3; i++) {
    char *end = text[i];
    const train_sampling_t sampling = {.temperature = i == 0 ? 0 : 0.7, .seed = 9};
    cr_assert_eq(train_sample(&extender, prompt, sizeof prompt / sizeof prompt[0], 40, &sampling,
                              keep_byte, &end),
                 COLL_OK);
    cr_assert_eq(end - text[i], 40);
  }
  cr_assert_eq(strncmp(text[0], "nt x", 4), 0, "'%s'", text[0]);
  cr_assert_str_eq(text[1], text[2]);
  cr_assert_str_neq(text[0], text[1]);
  train_model_destroy(extending.model);
  free_jobs(1, job);
}
