/*
 * Evaluation and sampling without a store, in layouts: the loss of one rank, and the tokens that
 * one rank samples.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"
#include "libtrain/layouts/job.h"
#include "libtrain/model/sample.h"

#define TIMEOUT_MS 60000
#define SEED 11
#define SEQUENCES 3
#define SAMPLED 48 /* more than the context */
#define RANKS_MAX 8

static const train_model_config_t of_experts = {.vocabulary = 61,
                                                .context = 32,
                                                .layers = 4,
                                                .heads = 4,
                                                .width = 64,
                                                .experts = 4,
                                                .top_k = 2,
                                                .moe_every = 2};

/* What the ranks compute. */
typedef struct outcome {
  double loss;                           /* summed over all positions */
  int32_t tokens[RANKS_MAX][2][SAMPLED]; /* with temperature 0 and 0.8 */
} outcome_t;

typedef struct task {
  const layout_trial_t *trial;
  const float *weights; /* of the whole model */
  outcome_t *outcome;
} task_t;

typedef struct worker {
  const task_t *task;
  train_mesh_t *mesh;
  train_ranks_t ranks;
  train_layout_t *part;
  train_arena_t arena;
  train_executor_t *executor;
} worker_t;

static int at_least_1(int value) {
  return value > 0 ? value : 1;
}

/* ---- creation ---- */

static void copy_weights(worker_t *worker) {
  float *own = malloc(worker->part->parameter_count * sizeof *own);
  for (size_t at = 0, full; at < worker->part->parameter_count;) {
    size_t run = train_layout_run(worker->part, at, &full);
    if (full != TRAIN_LAYOUT_PADDING) {
      memcpy(own + at, worker->task->weights + full, run * sizeof *own);
    }
    at += run;
  }
  worker->arena = (train_arena_t){.layout = worker->part, .parameters = own};
}

static int start(party_rank_t *party, worker_t *worker) {
  const layout_trial_t *trial = worker->task->trial;
  const train_model_config_t *config = layout_trial_config(trial);
  const train_mesh_options_t options = {.size = {at_least_1(trial->tp), at_least_1(trial->cp),
                                                 at_least_1(trial->dp), at_least_1(trial->pp)},
                                        .ep = trial->ep,
                                        .etp = trial->etp};
  const train_model_options_t model = {.sequences = SEQUENCES,
                                       .experts.capacity_factor = 0.5 /* nothing is dropped */};
  train_mesh_shape_t shape;
  train_placement_t placement;
  train_group_t all;
  PARTY_OK(train_group_init(party->comm, &all));
  PARTY_OK(train_mesh_shape_init(&options, party->size, &shape));
  PARTY_OK(train_placement_init(party->size, NULL, &placement));
  PARTY_OK(train_mesh_create(&all, &shape, &placement, &worker->mesh));
  worker->ranks = train_ranks_of_mesh(worker->mesh, trial->sequence_parallel, trial->context_kind);
  const train_part_t part = train_ranks_part(worker->mesh, config->layers, 1);
  PARTY_OK(train_layout_create_part(config, &part, &worker->part));
  copy_weights(worker);
  const train_param_provider_t provider = train_arena_provider(&worker->arena);
  PARTY_OK(train_executor_create_forward(worker->part, &provider, &worker->ranks, &model,
                                         &worker->executor));
  return 0;
}

static void end(worker_t *worker) {
  train_executor_destroy(worker->executor);
  free(worker->arena.parameters);
  train_layout_destroy(worker->part);
  train_mesh_destroy(worker->mesh);
}

/* ---- passes ---- */

/* Passes of all sequences and of fewer. */
static int evaluate(const worker_t *worker) {
  int context = layout_config.context, vocabulary = layout_config.vocabulary;
  int32_t tokens[SEQUENCES * 32], targets[SEQUENCES * 32];
  double sum = 0;
  for (int sequences = SEQUENCES; sequences > 0; sequences--) {
    double loss;
    for (int i = 0; i < sequences * context; i++) {
      tokens[i] = (i * i + 7 * sequences + i / 5) % vocabulary;
      targets[i] = (i * 11 + sequences) % vocabulary;
    }
    PARTY_OK(train_executor_loss(worker->executor, tokens, targets, sequences, &loss));
    if (worker->ranks.share == 0) sum += loss; /* all shares compute the same */
  }
  PARTY_OK(train_group_sum_doubles(&worker->ranks.all, &sum, 1));
  if (worker->ranks.all.rank == 0) worker->task->outcome->loss = sum;
  return 0;
}

/* Where a rank keeps sampled tokens. */
typedef struct keeper {
  int32_t *tokens;
  int count;
} keeper_t;

static bool keep(void *context, int32_t token) {
  keeper_t *keeper = context;
  keeper->tokens[keeper->count++] = token;
  return true;
}

static coll_status_t extend(void *executor, const int32_t *tokens, int first, int count,
                            float *logits) {
  return train_executor_extend(executor, tokens, first, count, logits);
}

static int sample(const worker_t *worker) {
  const train_extender_t extender = {.context = layout_config.context,
                                     .vocabulary = layout_config.vocabulary,
                                     .extend = extend,
                                     .extending = worker->executor};
  const int32_t prompt[] = {3, 1, 4, 1, 5};
  for (int i = 0; i < 2; i++) {
    const train_sampling_t sampling = {.temperature = 0.8 * i, .seed = SEED};
    keeper_t keeper = {.tokens = worker->task->outcome->tokens[worker->ranks.all.rank][i]};
    PARTY_OK(train_sample(&extender, prompt, 5, SAMPLED, &sampling, keep, &keeper));
    PARTY_REQUIRE(keeper.count == SAMPLED, "%d tokens are sampled", keeper.count);
  }
  return 0;
}

static bool samples(const layout_trial_t *trial) {
  return at_least_1(trial->dp) == 1 && at_least_1(trial->cp) == 1 && !trial->sequence_parallel;
}

static int body(party_rank_t *party) {
  worker_t worker = {.task = party->context};
  int failed = start(party, &worker);
  if (failed == 0) failed = evaluate(&worker);
  if (failed == 0 && samples(worker.task->trial)) failed = sample(&worker);
  PARTY_OK(coll_barrier(party->comm, NULL));
  end(&worker);
  return failed;
}

/* ---- comparisons ---- */

static void run(const layout_trial_t *trial, const float *weights, outcome_t *outcome) {
  const task_t task = {.trial = trial, .weights = weights, .outcome = outcome};
  harness_result_t result;
  char text[200];
  int ranks =
      at_least_1(trial->dp) * at_least_1(trial->tp) * at_least_1(trial->cp) * at_least_1(trial->pp);
  *outcome = (outcome_t){0};
  cr_assert(party_threads(ranks, TIMEOUT_MS, body, (void *)&task, &result), "%s: %s",
            layout_trial_text(trial, text), result.text);
}

static void compare(const layout_trial_t *trial, const outcome_t *got, const outcome_t *expected) {
  char text[200];
  int ranks = at_least_1(trial->tp) * at_least_1(trial->pp);
  layout_trial_text(trial, text);
  cr_expect_float_eq(got->loss, expected->loss, 1e-6 * expected->loss,
                     "%s: the loss is %.9g, not %.9g", text, got->loss, expected->loss);
  for (int rank = 0; rank < ranks && samples(trial); rank++) {
    cr_expect_arr_eq(got->tokens[rank], expected->tokens[0], sizeof got->tokens[rank],
                     "%s: rank %d samples other tokens", text, rank);
  }
}

static void check(const train_model_config_t *config, const layout_trial_t *trials, size_t count) {
  static outcome_t alone, got;
  train_layout_t *whole;
  cr_assert_eq(train_layout_create(config, &whole), COLL_OK);
  float *weights = malloc(whole->parameter_count * sizeof *weights);
  train_layout_initialize(NULL, whole, SEED, 0, whole->parameter_count, weights);
  for (size_t i = 0; i < whole->parameter_count; i++) weights[i] *= 3; /* clear choices */
  run(&(layout_trial_t){.config = config}, weights, &alone);
  for (size_t i = 0; i < count; i++) {
    layout_trial_t trial = trials[i];
    trial.config = config;
    run(&trial, weights, &got);
    compare(&trial, &got, &alone);
  }
  free(weights);
  train_layout_destroy(whole);
}

#define CHECK(config, ...)                                    \
  do {                                                        \
    const layout_trial_t trials[] = {__VA_ARGS__};            \
    check(&(config), trials, sizeof trials / sizeof *trials); \
  } while (0)

Test(forward, dense) {
  CHECK(layout_config, {.tp = 2}, {.tp = 4}, {.pp = 2}, {.pp = 4}, {.tp = 2, .pp = 2}, {.dp = 2},
        {.tp = 2, .sequence_parallel = true}, {.cp = 2},
        {.cp = 2, .context_kind = TRAIN_CONTEXT_ULYSSES},
        {.dp = 2, .tp = 2, .pp = 2, .sequence_parallel = true}, {.cp = 2, .pp = 2});
}

Test(forward, untied_head) {
  train_model_config_t config = layout_config;
  config.untied = 1;
  CHECK(config, {.tp = 2, .pp = 2});
}

Test(forward, experts) {
  CHECK(of_experts, {.tp = 2}, {.tp = 2, .etp = 1}, {.pp = 2, .tp = 2, .etp = 1},
        {.dp = 2, .ep = 2}, {.cp = 2, .tp = 2, .ep = 2, .etp = 1, .sequence_parallel = true});
}
