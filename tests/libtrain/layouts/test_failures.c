/*
 * A rank is killed in the middle of a schedule, before a sample of its products. Every other rank
 * must end with an error that names the rank of the job that died, whichever communicator it was
 * waiting in; within two seconds, as timing_failures requires.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "harness/sample.h"
#include "libtrain/layouts/job.h"
#include "libtrain/layouts/victim.h"

#define TIMEOUT_MS 20000
#define PROMISE_MS 2000
#define STEPS 2

typedef struct death {
  layout_trial_t trial;
  int victim;
  int products; /* that the victim survives */
} death_t;

static bool is_timed; /* it is printed how late a rank ends, which may be late */

static int check_time(void) {
  int ms = (int)((base_clock_now_ns() - victim_died_ns()) / 1000000u);
  printf("a training ends within %d ms of a death / %d ms\n", ms, PROMISE_MS);
  PARTY_REQUIRE(ms < PROMISE_MS, "it ended after %d ms", ms);
  return 0;
}

static int check_told(const death_t *death, coll_status_t status) {
  const char *sentence = base_last_error();
  char name[32];
  snprintf(name, sizeof name, "rank %d", death->victim);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s: %s", coll_status_string(status), sentence);
  PARTY_REQUIRE(strstr(sentence + strlen("rank 0: "), name) != NULL, "it names not %s: %s", name,
                sentence);
  PARTY_REQUIRE(victim_died_ns() != 0, "no rank has died");
  return is_timed ? check_time() : 0;
}

static int body(party_rank_t *party) {
  const death_t *death = party->context;
  layout_trial_t trial = death->trial;
  train_ops_t ops = victim_ops();
  coll_status_t status;
  trial.ops = &ops;
  trial.steps = STEPS;
  if (party->rank == death->victim) victim_die(death->products, NULL);
  PARTY_TRY(layout_train_rank(party, &trial, &status));
  return check_told(death, status);
}

/* ---- deaths ---- */

static void die_once(int ranks, const death_t *death) {
  harness_result_t result;
  char text[200];
  layout_trial_text(&death->trial, text);
  party_processes(ranks, TIMEOUT_MS, body, (void *)death, &result);
  cr_assert_eq(result.ranks[death->victim].end, HARNESS_KILLED, "%s: %s", text, result.text);
  for (int rank = 0; rank < ranks; rank++) {
    const harness_rank_t *end = &result.ranks[rank];
    if (rank == death->victim) continue;
    cr_assert(end->end == HARNESS_RETURNED && end->value == 0, "%s, rank %d after %d products: %s",
              text, death->victim, death->products, result.text);
  }
}

/* The victims take turns. A stage has 8 products of a layer and micro-batch, or slice of it, or
 * more. */
static void die(const layout_trial_t *trial, int ranks, int deaths) {
  int layers = layout_config.layers / trial->pp;
  int products = STEPS * 8 * layers * trial->micro_batches * train_slices_count(&trial->slices);
  for (int i = 0; i < deaths; i++) {
    if (!harness_takes(HARNESS_MOMENTS, (unsigned)i)) continue;
    const death_t death = {
        .trial = *trial, .victim = i % ranks, .products = (products - 1) * i / deaths};
    die_once(ranks, &death);
  }
}

#define DIE(ranks, ...) die(&(layout_trial_t){__VA_ARGS__}, ranks, DEATHS)
#define DEATHS 8

static const train_model_config_t untied = {
    .vocabulary = 61, .context = 32, .layers = 4, .heads = 4, .width = 64, .untied = 1};

Test(failures, naive) {
  DIE(4, .pp = 4, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_NAIVE);
}

Test(failures, gpipe) {
  DIE(4, .pp = 4, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_GPIPE);
}

Test(failures, one_f_one_b) {
  DIE(4, .pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_1F1B);
}

Test(failures, interleaved) {
  DIE(2, .pp = 2, .chunks = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_INTERLEAVED);
}

Test(failures, zero_bubble) {
  DIE(4, .pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_ZB_H1);
}

Test(failures, terapipe) {
  DIE(4, .pp = 4, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_TERAPIPE,
      .slices = {3, {14, 10, 8}});
  DIE(4, .tp = 2, .pp = 2, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_TERAPIPE,
      .slices = {3, {14, 10, 8}});
}

Test(failures, pipedream) {
  DIE(4, .pp = 4, .config = &untied, .micro_batches = 1, .schedule = TRAIN_SCHEDULE_PIPEDREAM);
  DIE(4, .pp = 2, .dp = 2, .config = &untied, .micro_batches = 2, .zero = 1,
      .schedule = TRAIN_SCHEDULE_PIPEDREAM_2BW);
}

Test(failures, tensor_and_pipeline) {
  DIE(4, .tp = 2, .pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B);
  DIE(4, .tp = 2, .pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_ZB_H1,
      .sequence_parallel = true);
}

Test(failures, tensor_overlapped) {
  DIE(4, .tp = 4, .pp = 1, .tensor_overlap = 1, .micro_batches = 2);
  DIE(4, .tp = 2, .pp = 2, .tensor_overlap = 4, .micro_batches = 4,
      .schedule = TRAIN_SCHEDULE_1F1B);
  DIE(4, .tp = 4, .pp = 1, .tensor_overlap = 2, .micro_batches = 2, .sequence_parallel = true);
}

Test(failures, context_and_experts) {
  DIE(4, .cp = 2, .pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B);
  DIE(4, .cp = 4, .pp = 1, .context_kind = TRAIN_CONTEXT_ULYSSES, .micro_batches = 2);
  DIE(4, .config = &layout_two_of_eight, .dp = 4, .ep = 2, .pp = 1, .micro_batches = 2);
}

/* Ranks that share neither a stage nor a pipeline with the one that dies. */
Test(failures, data_tensor_and_pipeline) {
  DIE(8, .dp = 2, .tp = 2, .pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B, .zero = 1);
}

Test(timing_failures, end_a_training_soon) {
  is_timed = true;
  DIE(4, .pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_1F1B);
  DIE(4, .tp = 2, .pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B);
}
