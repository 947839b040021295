/*
 * The training loop on ranks that are threads of the test: equal losses for any number of ranks,
 * identical bits on all ranks, resuming, and common failure.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "folder.h"
#include "harness/harness.h"
#include "libtrain/files/model_file.h"
#include "libtrain/model/sample.h"
#include "libtrain/trainer.h"

#define RANKS_MAX 4
#define TIMEOUT_MS 120000
#define STEPS 40
#define STEPS_MAX 150

static const train_model_config_t config = {
    .vocabulary = 256, .context = 16, .layers = 2, .heads = 2, .width = 32};

static folder_t folder;
static train_corpus_t corpus;

/* Learnable text: words in a fixed cycle with some noise between them. */
static void setup(void) {
  static const char *const words[] = {"static ", "int ", "x", "= ", "42;\n"};
  static uint16_t tokens[2][4000];
  static train_shard_t shards[2];
  for (int split = 0; split < 2; split++) {
    size_t count = 0;
    for (unsigned i = 0; count + 16 < sizeof tokens[0] / sizeof tokens[0][0]; i++) {
      for (const char *descriptor = words[i % 5]; *descriptor != '\0'; descriptor++) {
        tokens[split][count++] = (uint8_t)*descriptor;
      }
      if (i % 5 == 2) tokens[split][count++] = (uint16_t)('0' + (i * i / 7 + (unsigned)split) % 10);
    }
    shards[split] = (train_shard_t){.tokens = tokens[split], .count = count, .name = "a test"};
    *(split == 0 ? &corpus.training : &corpus.held_out) = (train_dataset_t){
        .shards = &shards[split], .shard_count = 1, .count = count, .vocabulary = 256};
  }
  corpus.shards = shards;
  corpus.shard_count = 2;
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(trainer, .init = setup, .fini = teardown);

static train_options_t usual_options(void) {
  return (train_options_t){.steps = STEPS,
                           .batch = 8,
                           .rate = 3e-3,
                           .warmup = 0.1,
                           .clip = 1,
                           .adamw = TRAIN_ADAMW_INIT,
                           .evaluations = 2,
                           .evaluation_tokens = 1024};
}

/* Inputs and results of one rank. */
typedef struct job {
  coll_comm_t comm;
  train_options_t options;
  train_store_options_t store_options;
  int micro_batches;
  const char *resume; /* NULL: a new model */
  coll_status_t status;
  char message[512];
  float losses[STEPS_MAX];
  train_metadata_t metadata;
  train_layout_t *layout;
  train_store_t *store;
  float *parameters; /* all of them, at the end */
  train_result_t result;
  const char *copy; /* hard link to the checkpoint made halfway through the run */
  bool copied;
} job_t;

static void on_step(void *context, const train_step_t *step) {
  job_t *job = context;
  job->losses[step->step - 1] = (float)step->loss;
}

static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  job_t *job = context;
  (void)evaluation;
  if (job->copy != NULL && step->progress < 1) {
    job->copied = link(job->options.checkpoint, job->copy) == 0;
  }
}

/* Creates the store and initializes it, from a seed or a checkpoint. */
static coll_status_t open_store(job_t *job, const train_group_t *group) {
  if (job->resume == NULL) {
    COLL_TRY(train_layout_create(&config, &job->layout));
    COLL_TRY(train_store_create(job->layout, group, &job->store_options, &job->store));
    return train_store_initialize(job->store, 11);
  }
  train_model_file_t *file;
  COLL_TRY(train_model_file_open(job->resume, &file));
  job->metadata.position = file->metadata.position;
  coll_status_t status = train_layout_create(&file->metadata.config, &job->layout);
  if (status == COLL_OK) {
    status = train_store_create(job->layout, group, &job->store_options, &job->store);
  }
  if (status == COLL_OK) status = train_store_load(job->store, &file->flat);
  train_model_file_close(file);
  return status;
}

static coll_status_t run_rank(job_t *job) {
  train_group_t group;
  COLL_TRY(train_group_init(job->comm, &group));
  job->options.model.sequences = job->options.batch / group.size / job->micro_batches;
  COLL_TRY(open_store(job, &group));
  const train_observer_t observer = {on_step, on_evaluation, job};
  COLL_TRY(train_run(&job->options, &corpus, &group, &observer, job->store, &job->metadata,
                     &job->result));
  const train_flat_t flat = train_store_flat(job->store);
  job->parameters = malloc(job->layout->parameter_count * sizeof(float));
  return flat.read(flat.context, TRAIN_PARAMETERS, 0, job->layout->parameter_count,
                   job->parameters);
}

static int rank_body(int rank, int size, void *context) {
  job_t *job = (job_t *)context + rank;
  (void)size;
  job->status = run_rank(job);
  if (job->status != COLL_OK) {
    snprintf(job->message, sizeof job->message, "%s", base_last_error());
  }
  return 0;
}

/* Runs jobs[size] as the ranks of one communicator. */
static void run_jobs(int size, job_t *jobs) {
  coll_comm_t comms[RANKS_MAX];
  harness_result_t result;
  cr_assert_eq(coll_comm_create_local(size, comms), COLL_OK, "%s", coll_last_error(NULL));
  for (int rank = 0; rank < size; rank++) jobs[rank].comm = comms[rank];
  cr_assert(harness_run_threads(size, TIMEOUT_MS, rank_body, jobs, &result), "%s", result.text);
  for (int rank = 0; rank < size; rank++) train_store_destroy(jobs[rank].store);
  for (int rank = 0; rank < size; rank++) coll_comm_destroy(comms[rank]);
}

static void free_jobs(int size, job_t *jobs) {
  for (int rank = 0; rank < size; rank++) {
    free(jobs[rank].parameters);
    train_layout_destroy(jobs[rank].layout);
  }
}

static void start_jobs(int size, job_t *jobs) {
  for (int rank = 0; rank < size; rank++) {
    jobs[rank] = (job_t){.options = usual_options(),
                         .store_options = TRAIN_STORE_OPTIONS_INIT,
                         .micro_batches = 1,
                         .metadata.position.seed = 3};
  }
}

static void check_all_ok(int size, const job_t *jobs) {
  for (int rank = 0; rank < size; rank++) {
    cr_assert_eq(jobs[rank].status, COLL_OK, "rank %d: %s", rank, jobs[rank].message);
  }
}

/* Checks that all ranks failed, and that exactly one has a message, which contains `words`. */
static void check_all_failed(int size, const job_t *jobs, const char *words) {
  int sentences = 0;
  for (int rank = 0; rank < size; rank++) {
    cr_assert_neq(jobs[rank].status, COLL_OK, "rank %d of %d succeeded", rank, size);
    if (jobs[rank].message[0] == '\0') continue;
    sentences++;
    cr_assert(strstr(jobs[rank].message, words), "rank %d: %s", rank, jobs[rank].message);
  }
  cr_assert_eq(sentences, 1);
}

static bool same_parameters(const job_t *a, const job_t *b) {
  return memcmp(a->parameters, b->parameters, a->layout->parameter_count * sizeof(float)) == 0;
}

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
    cr_assert_eq(jobs[rank].result.held_out.tokens, (uint64_t)config.context);
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
  const char *whole = folder_path(&folder, "whole"), *half = folder_path(&folder, "half");
  const char *second = folder_path(&folder, "second");
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
  check_token_fails_all(&corpus.training, 1000,
                        "a test: token 300 at 1000 is beyond the vocabulary");
}

Test(trainer, invalid_held_out_token_fails_all_ranks) {
  check_token_fails_all(&corpus.held_out, 0, "a test: token 300 at 0 is beyond the vocabulary");
}

Test(trainer, unwritable_checkpoint_fails_all_ranks_before_the_first_step) {
  static job_t jobs[2];
  start_jobs(2, jobs);
  for (int rank = 0; rank < 2; rank++) {
    jobs[rank].options.checkpoint = folder_path(&folder, "missing/model");
  }
  run_jobs(2, jobs);
  check_all_failed(2, jobs, "cannot write");
  cr_assert_eq(jobs[0].metadata.position.step, 0);
  free_jobs(2, jobs);
}

Test(trainer, nan_loss_keeps_the_last_checkpoint) {
  static job_t jobs[2];
  const char *path = folder_path(&folder, "model");
  folder_write(&folder, "model", "good", 4);
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

Test(trainer, sample_continues_the_training_text) {
  static job_t job[1];
  start_jobs(1, job);
  job->options.rate = 1e-2;
  job->options.steps = STEPS_MAX;
  run_jobs(1, job);
  check_all_ok(1, job);
  const train_model_options_t options = {.sequences = 1};
  train_arena_t arena = {.layout = job->layout, .parameters = job->parameters};
  const train_param_provider_t provider = train_arena_provider(&arena);
  const int32_t prompt[] = {0, 's', 't', 'a', 't', 'i', 'c', ' ', 'i'};
  train_model_t *model;
  cr_assert_eq(train_model_create(job->layout, &options, &model), COLL_OK);
  char text[3][41] = {{0}};
  for (int i = 0; i < 3; i++) {
    char *end = text[i];
    const train_sampling_t sampling = {.temperature = i == 0 ? 0 : 0.7, .seed = 9};
    cr_assert_eq(train_sample(model, &provider, prompt, sizeof prompt / sizeof prompt[0], 40,
                              &sampling, keep_byte, &end),
                 COLL_OK);
    cr_assert_eq(end - text[i], 40);
  }
  cr_assert_eq(strncmp(text[0], "nt x", 4), 0, "'%s'", text[0]);
  cr_assert_str_eq(text[1], text[2]);
  cr_assert_str_neq(text[0], text[1]);
  train_model_destroy(model);
  free_jobs(1, job);
}
