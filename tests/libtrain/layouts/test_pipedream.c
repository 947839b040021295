/*
 * Asynchronous schedules against a slow, obvious reference: one rank that keeps the weights after
 * each update, computes the gradients of each micro-batch with those that the papers say, and
 * updates the layers of each stage with the norm of that stage. Weights and losses have the same
 * bits.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "harness/party.h"
#include "libtrain/common/random.h"
#include "libtrain/data/shuffle.h"
#include "libtrain/files/model_file.h"
#include "libtrain/folder.h"
#include "libtrain/mesh/mesh.h"
#include "libtrain/parallel/executor.h"
#include "libtrain/trainer.h"

#define TIMEOUT_MS 120000
#define STEPS 14
#define EVALUATIONS 2 /* the pipeline empties after step 7 */
#define SPAN (STEPS / EVALUATIONS)
#define SEED 7
#define ROWS 2    /* of a micro-batch, over all data ranks */
#define CLIP 0.25 /* norms of stages are larger */
#define TOKENS 3000
#define REFUSED_BYTES 512

static const train_model_config_t config = {
    .vocabulary = 37, .context = 12, .layers = 5, .heads = 2, .width = 16, .untied = 1};

typedef struct trial {
  train_schedule_kind_t schedule;
  int pp, dp, tp, micro_batches; /* 0: 1 */
  int zero;
} trial_t;

static int at_least_1(int value) {
  return value > 0 ? value : 1;
}

typedef struct outcome {
  train_layout_t *whole;
  double losses[STEPS];
  float *weights; /* of the whole model, after the last step */
} outcome_t;

static outcome_t create_outcome(void) {
  outcome_t outcome = {0};
  cr_assert_eq(train_layout_create(&config, &outcome.whole), COLL_OK);
  outcome.weights = calloc(outcome.whole->parameter_count, sizeof(float));
  return outcome;
}

static void free_outcome(outcome_t *outcome) {
  free(outcome->weights);
  train_layout_destroy(outcome->whole);
}

/* ---- data and options ---- */

static train_corpus_t corpus;

static void make_corpus(void) {
  static uint16_t tokens[TOKENS];
  static train_shard_t shard = {.tokens = tokens, .count = TOKENS, .name = "a test"};
  for (int i = 1; i < TOKENS; i++) {
    uint64_t noise = train_random_below(SEED, TRAIN_RANDOM_BATCHES, (uint64_t)i, 3);
    tokens[i] = (uint16_t)((tokens[i - 1] * 7u + noise) % (unsigned)config.vocabulary);
  }
  corpus.training = corpus.held_out = (train_dataset_t){
      .shards = &shard, .shard_count = 1, .count = TOKENS, .vocabulary = config.vocabulary};
}

TestSuite(pipedream, .init = make_corpus);

static train_options_t options_of(const trial_t *trial) {
  return (train_options_t){.steps = STEPS,
                           .batch = ROWS * at_least_1(trial->micro_batches),
                           .model.sequences = ROWS / at_least_1(trial->dp),
                           .schedule = trial->schedule,
                           .rate = 3e-3,
                           .warmup = 0.2,
                           .clip = CLIP,
                           .clip_by_stage = true,
                           .adamw = TRAIN_ADAMW_INIT,
                           .evaluations = EVALUATIONS,
                           .evaluation_tokens = 64};
}

/* ---- the run ---- */

typedef struct rank {
  const trial_t *trial;
  const train_model_config_t *config;
  const train_options_t *options;
  const char *resume; /* checkpoint to begin with; NULL: a new model */
  const char *copy;   /* of the checkpoint after the first evaluation; NULL: none */
  char *refused;      /* [REFUSED_BYTES], the text of the run's failure; NULL: it must not fail */
  outcome_t *outcome;
  bool first;
  train_mesh_t *mesh;
  train_ranks_t ranks;
  train_layout_t *part;
  train_store_t *store;
} rank_t;

static void on_step(void *context, const train_step_t *step) {
  const rank_t *rank = context;
  if (rank->first) rank->outcome->losses[step->step - 1] = step->loss;
}

/* If there is no copy, the run that resumes it fails. */
static void on_evaluation(void *context, const train_step_t *step,
                          const train_evaluation_t *evaluation) {
  const rank_t *rank = context;
  (void)evaluation;
  if (rank->first && rank->copy != NULL && step->progress < 1) {
    (void)link(rank->options->checkpoint, rank->copy);
  }
}

static int load(const rank_t *rank, train_metadata_t *metadata) {
  train_model_file_t *file;
  PARTY_OK(train_model_file_open(rank->resume, &file));
  metadata->position = file->metadata.position;
  PARTY_OK(train_store_load(rank->store, &file->flat));
  train_model_file_close(file);
  return 0;
}

static int open_rank(party_rank_t *party, rank_t *rank) {
  const trial_t *trial = rank->trial;
  const train_mesh_options_t sizes = {.size = {[TRAIN_MESH_TP] = at_least_1(trial->tp),
                                               [TRAIN_MESH_CP] = 1,
                                               [TRAIN_MESH_DP] = at_least_1(trial->dp),
                                               [TRAIN_MESH_PP] = trial->pp},
                                      .ep = 1};
  train_store_options_t options = TRAIN_STORE_OPTIONS_INIT; /* a unit is one bucket */
  train_group_t all;
  train_mesh_shape_t shape;
  train_placement_t placement;
  options.stage = trial->zero;
  PARTY_OK(train_group_init(party->comm, &all));
  PARTY_OK(train_mesh_shape_init(&sizes, party->size, &shape));
  PARTY_OK(train_placement_init(party->size, NULL, &placement));
  PARTY_OK(train_mesh_create(&all, &shape, &placement, &rank->mesh));
  rank->first = all.rank == 0;
  rank->ranks = train_ranks_of_mesh(rank->mesh, false, TRAIN_CONTEXT_RING);
  const train_part_t part = train_ranks_part(rank->mesh, rank->config->layers, 1);
  PARTY_OK(train_layout_create_part(rank->config, &part, &rank->part));
  PARTY_OK(train_store_create(rank->part, &rank->ranks.data, &options, &rank->store));
  PARTY_OK(train_store_initialize(rank->store, SEED));
  return 0;
}

static void close_rank(rank_t *rank) {
  train_store_destroy(rank->store);
  train_layout_destroy(rank->part);
  train_mesh_destroy(rank->mesh);
}

/* Copies the weights that the rank owns to their places in the whole model. */
static int collect(const rank_t *rank) {
  const train_param_provider_t provider = train_store_provider(rank->store);
  for (int i = 0; i < rank->part->tensor_count; i++) {
    const train_tensor_t *tensor = &rank->part->tensors[i];
    const void *unit;
    PARTY_OK(provider.acquire(provider.context, tensor->unit, -1, &unit));
    const float *values =
        (const float *)unit + (tensor->offset - rank->part->units[tensor->unit].offset);
    for (size_t at = 0; at < train_tensor_count(tensor) && tensor->owned; at++) {
      size_t full;
      train_layout_run(rank->part, tensor->offset + at, &full);
      rank->outcome->weights[full] = values[at];
    }
    provider.release(provider.context, tensor->unit);
  }
  return 0;
}

static int train(rank_t *rank) {
  const train_observer_t observer = {
      .on_step = on_step, .on_evaluation = on_evaluation, .context = rank};
  train_metadata_t metadata = {.position.seed = SEED};
  train_result_t result;
  if (rank->resume != NULL) PARTY_TRY(load(rank, &metadata));
  coll_status_t status =
      train_run(rank->options, &corpus, &rank->ranks, &observer, rank->store, &metadata, &result);
  if (rank->refused != NULL) {
    PARTY_REQUIRE(status != COLL_OK, "the run is not refused");
    if (*base_last_error()) snprintf(rank->refused, REFUSED_BYTES, "%s", base_last_error());
    return 0;
  }
  PARTY_REQUIRE(status == COLL_OK, "%s", base_last_error());
  return rank->ranks.data.rank == 0 ? collect(rank) : 0;
}

static int body(party_rank_t *party) {
  rank_t rank = *(const rank_t *)party->context;
  int failed = open_rank(party, &rank);
  if (failed == 0) failed = train(&rank);
  PARTY_OK(coll_barrier(party->comm, NULL));
  close_rank(&rank);
  return failed;
}

static void run_ranks(rank_t *shared) {
  const trial_t *trial = shared->trial;
  int ranks = at_least_1(trial->pp) * at_least_1(trial->dp) * at_least_1(trial->tp);
  harness_result_t result;
  cr_assert(party_threads(ranks, TIMEOUT_MS, body, shared, &result), "%s", result.text);
}

static outcome_t run(const trial_t *trial) {
  const train_options_t options = options_of(trial);
  outcome_t outcome = create_outcome();
  rank_t shared = {.trial = trial, .config = &config, .options = &options, .outcome = &outcome};
  run_ranks(&shared);
  return outcome;
}

/* ---- the reference ---- */

typedef struct reference {
  const trial_t *trial;
  outcome_t *outcome;
  train_model_t *model;
  train_arena_t arena;
  float *versions[STEPS + 1]; /* the weights after each update */
  float *first_moments, *second_moments;
} reference_t;

static void read_rows(int micro_batch, int32_t *tokens, int32_t *targets) {
  uint64_t windows = train_dataset_windows(&corpus.training, config.context);
  for (int row = 0; row < ROWS; row++) {
    uint64_t window = train_shuffle_window(SEED, windows, (uint64_t)(micro_batch * ROWS + row));
    int at = row * config.context;
    cr_assert_eq(train_dataset_sequence(&corpus.training, window * (uint64_t)config.context,
                                        config.context, tokens + at, targets + at),
                 COLL_OK);
  }
}

/* How many updates the weights contain with which a step's micro-batch is computed, if the pipeline
 * was empty after update `empty`. Micro-batches count from there. */
static int version_of(const trial_t *trial, int empty, int step, int micro_batch) {
  int version = trial->schedule == TRAIN_SCHEDULE_PIPEDREAM ? micro_batch - (trial->pp - 1)
                                                            : step - empty - 1;
  return empty + (version > 0 ? version : 0);
}

static void compute_gradients(reference_t *reference, int step) {
  const trial_t *trial = reference->trial;
  int32_t tokens[ROWS * 12], targets[ROWS * 12];
  int empty = step / SPAN * SPAN, each = at_least_1(trial->micro_batches);
  float mean = 1.0f / ((float)(ROWS * each) * (float)config.context);
  double sum = 0, loss;
  const train_param_provider_t provider = train_arena_provider(&reference->arena);
  train_arena_begin(&reference->arena);
  for (int i = step * each; i < (step + 1) * each; i++) {
    int version = version_of(trial, empty, step, i - empty * each);
    cr_assert(version <= step && step - version < trial->pp);
    reference->arena.parameters = reference->versions[version];
    read_rows(i, tokens, targets);
    cr_assert_eq(train_model_forward_backward(reference->model, &provider, tokens, targets, ROWS,
                                              config.context, mean, &loss),
                 COLL_OK);
    sum += loss;
  }
  reference->outcome->losses[step] = sum * (double)mean;
}

static int stage_of(const trial_t *trial, const train_tensor_t *tensor) {
  if (strncmp(tensor->name, "wte", 3) == 0 || strncmp(tensor->name, "wpe", 3) == 0) return 0;
  if (tensor->layer < 0) return trial->pp - 1;
  int stage = 0;
  for (int i = 1; i < trial->pp; i++) stage += tensor->layer >= config.layers * i / trial->pp;
  return stage;
}

/* Sums of squares are added by unit, then over units. */
static double norm_of(const reference_t *reference, int stage) {
  const train_layout_t *whole = reference->outcome->whole;
  double all = 0;
  for (int unit = 0; unit < whole->unit_count; unit++) {
    double sum = 0;
    for (int i = 0; i < whole->tensor_count; i++) {
      const train_tensor_t *tensor = &whole->tensors[i];
      if (tensor->unit != unit || stage_of(reference->trial, tensor) != stage) continue;
      sum += train_square_sum(NULL, reference->arena.gradients + tensor->offset,
                              train_tensor_count(tensor));
    }
    all += sum;
  }
  return sqrt(all);
}

static void update_stage(reference_t *reference, int step, int stage) {
  const train_options_t options = options_of(reference->trial);
  const train_layout_t *whole = reference->outcome->whole;
  double norm = norm_of(reference, stage);
  cr_assert(norm > CLIP, "step %d: the norm of stage %d is only %g", step, stage, norm);
  float rate =
      train_learning_rate_at(options.rate, options.warmup, (double)(step + 1) / (double)STEPS);
  for (int i = 0; i < whole->tensor_count; i++) {
    const train_tensor_t *tensor = &whole->tensors[i];
    size_t at = tensor->offset;
    if (stage_of(reference->trial, tensor) != stage) continue;
    const train_adamw_arrays_t arrays = {.gradients = reference->arena.gradients + at,
                                         .parameters = reference->versions[step + 1] + at,
                                         .first_moments = reference->first_moments + at,
                                         .second_moments = reference->second_moments + at};
    train_adamw_step(NULL, &options.adamw, whole, at, train_tensor_count(tensor), &arrays,
                     train_gradient_clip(norm, CLIP), rate, (uint64_t)step + 1);
  }
}

static outcome_t reference_of(const trial_t *trial) {
  outcome_t outcome = create_outcome();
  size_t count = outcome.whole->parameter_count, bytes = count * sizeof(float);
  const train_model_options_t options = {.sequences = ROWS};
  reference_t reference = {.trial = trial, .outcome = &outcome};
  cr_assert_eq(train_model_create(outcome.whole, &options, &reference.model), COLL_OK);
  reference.arena = (train_arena_t){.layout = outcome.whole, .dtype = TRAIN_FLOAT32};
  reference.arena.gradients = calloc(count, sizeof(float));
  reference.first_moments = calloc(count, sizeof(float));
  reference.second_moments = calloc(count, sizeof(float));
  for (int i = 0; i <= STEPS; i++) reference.versions[i] = malloc(bytes);
  train_layout_initialize(NULL, outcome.whole, SEED, 0, count, reference.versions[0]);
  for (int step = 0; step < STEPS; step++) {
    compute_gradients(&reference, step);
    memcpy(reference.versions[step + 1], reference.versions[step], bytes);
    for (int stage = 0; stage < trial->pp; stage++) update_stage(&reference, step, stage);
  }
  memcpy(outcome.weights, reference.versions[STEPS], bytes);
  for (int i = 0; i <= STEPS; i++) free(reference.versions[i]);
  free(reference.second_moments);
  free(reference.first_moments);
  free(reference.arena.gradients);
  train_model_destroy(reference.model);
  return outcome;
}

/* ---- tests ---- */

/* The largest relative difference of a step's loss. */
static double apart(const outcome_t *got, const outcome_t *expected) {
  double most = 0;
  for (int step = 0; step < STEPS; step++) {
    most = fmax(most, fabs(got->losses[step] / expected->losses[step] - 1));
  }
  return most;
}

static void check(trial_t trial) {
  outcome_t got = run(&trial), expected = reference_of(&trial);
  for (int step = 0; step < STEPS; step++) {
    cr_assert_eq(got.losses[step], expected.losses[step], "step %d: loss %.17g, expected %.17g",
                 step + 1, got.losses[step], expected.losses[step]);
  }
  for (size_t i = 0; i < got.whole->parameter_count; i++) {
    cr_assert_eq(got.weights[i], expected.weights[i], "%s is %.9g, expected %.9g",
                 train_layout_tensor_at(got.whole, i)->name, (double)got.weights[i],
                 (double)expected.weights[i]);
  }
  free_outcome(&got);
  free_outcome(&expected);
}

#define PIPEDREAM(...)                                \
  (trial_t) {                                         \
    .schedule = TRAIN_SCHEDULE_PIPEDREAM, __VA_ARGS__ \
  }
#define PIPEDREAM_2BW(...)                                \
  (trial_t) {                                             \
    .schedule = TRAIN_SCHEDULE_PIPEDREAM_2BW, __VA_ARGS__ \
  }

Test(pipedream, equals_the_reference) {
  check(PIPEDREAM(.pp = 2));
  check(PIPEDREAM(.pp = 4));
}

Test(pipedream, two_buffered_weights_equal_the_reference) {
  check(PIPEDREAM_2BW(.pp = 2, .micro_batches = 2));
  check(PIPEDREAM_2BW(.pp = 4, .micro_batches = 4));
  check(PIPEDREAM_2BW(.pp = 4, .micro_batches = 2)); /* in groups of two batches */
}

/* A run that begins with the checkpoint of the first evaluation ends as the one that wrote it. */
static void check_resumed(trial_t trial) {
  train_options_t options = options_of(&trial);
  outcome_t whole = create_outcome(), resumed = create_outcome();
  folder_t folder;
  folder_make(&folder);
  options.checkpoint = folder_path(&folder, "run.ckpt");
  rank_t first = {.trial = &trial, .config = &config, .options = &options, .outcome = &whole},
         second = first;
  first.copy = second.resume = folder_path(&folder, "half.ckpt");
  second.outcome = &resumed;
  run_ranks(&first);
  run_ranks(&second);
  cr_assert_arr_eq(whole.weights, resumed.weights, whole.whole->parameter_count * sizeof(float));
  cr_assert_arr_eq(whole.losses + SPAN, resumed.losses + SPAN, SPAN * sizeof(double));
  free_outcome(&whole);
  free_outcome(&resumed);
  folder_remove(&folder);
}

/* The pipeline is empty when a checkpoint is saved, so that a step needs its weights only. */
Test(pipedream, resumes_with_the_same_bits) {
  check_resumed(PIPEDREAM(.pp = 2));
  check_resumed(PIPEDREAM_2BW(.pp = 4, .micro_batches = 3));
}

/* Other layouts add in another order. */
Test(pipedream, data_and_tensor_ranks) {
  const trial_t trials[] = {PIPEDREAM(.pp = 2, .dp = 2), PIPEDREAM(.pp = 2, .dp = 2, .zero = 1),
                            PIPEDREAM(.pp = 2, .tp = 2),
                            PIPEDREAM_2BW(.pp = 2, .dp = 2, .zero = 1, .micro_batches = 3)};
  for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
    trial_t alone = trials[i];
    alone.dp = alone.tp = 1;
    outcome_t got = run(&trials[i]), expected = reference_of(&alone);
    cr_assert(apart(&got, &expected) < 1e-5, "trial %zu: %g", i, apart(&got, &expected));
    free_outcome(&got);
    free_outcome(&expected);
  }
}

/* Staleness is seen: the reference of a shorter pipeline has other losses. */
Test(pipedream, weights_are_stale) {
  outcome_t two = reference_of(&PIPEDREAM(.pp = 2)), four = reference_of(&PIPEDREAM(.pp = 4));
  cr_assert(apart(&two, &four) > 1e-4, "%g", apart(&two, &four));
  free_outcome(&two);
  free_outcome(&four);
}

/* Bytes of the first stage of four. */
static size_t predicted(train_schedule_kind_t kind, int micro_batches, int steps, size_t *weights) {
  const train_part_t part = train_part_of_stage(config.layers, 0, 4, 1);
  const train_ranks_t ranks = {.shares = 1, .stages = 4};
  const train_executor_options_t options = {
      .model.sequences = 2, .micro_batches = micro_batches, .schedule = kind, .steps = steps};
  train_layout_t *layout;
  size_t bytes;
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_OK);
  cr_assert_eq(train_executor_predict(layout, &ranks, &options, &bytes), COLL_OK, "%s",
               base_last_error());
  *weights = layout->parameter_count * sizeof(float);
  train_layout_destroy(layout);
  return bytes;
}

Test(pipedream, versions_are_counted) {
  size_t weights;
  size_t flushed = predicted(TRAIN_SCHEDULE_1F1B, 8, 0, &weights);
  cr_assert_eq(predicted(TRAIN_SCHEDULE_PIPEDREAM, 1, 8, &weights), flushed + 3 * weights);
  cr_assert_eq(predicted(TRAIN_SCHEDULE_PIPEDREAM_2BW, 8, 3, &weights), flushed + weights);
}

static void refuse(const trial_t *trial, const train_model_config_t *model,
                   const train_options_t *options, const char *words) {
  char refused[REFUSED_BYTES] = "";
  rank_t shared = {.trial = trial, .config = model, .options = options, .refused = refused};
  run_ranks(&shared);
  cr_assert(strstr(refused, words) != NULL, "'%s' does not say '%s'", refused, words);
}

Test(pipedream, refuses_what_needs_all_stages_at_once) {
  const trial_t trial = PIPEDREAM(.pp = 2), divided = PIPEDREAM(.pp = 2, .zero = 2),
                several = PIPEDREAM(.pp = 2, .micro_batches = 2),
                synchronous = {.pp = 2, .schedule = TRAIN_SCHEDULE_1F1B};
  train_model_config_t tied = config;
  train_options_t options = options_of(&trial), batch_of_two = options_of(&several),
                  flushed = options_of(&synchronous);
  tied.untied = 0;
  refuse(&trial, &tied, &options, "--untied");
  refuse(&divided, &config, &options, "--zero 1");
  refuse(&several, &config, &batch_of_two, "--accumulate 1");
  refuse(&synchronous, &config, &flushed, "--clip-by global");
  options.clip_by_stage = false;
  refuse(&trial, &config, &options, "--clip-by stage");
  options = options_of(&trial);
  options.loss_scaling = true;
  refuse(&trial, &config, &options, "--precision bf16");
  options = options_of(&trial);
  options.seconds = 5;
  refuse(&trial, &config, &options, "--seconds");
}
