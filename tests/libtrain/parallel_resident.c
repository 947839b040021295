/*
 * Compares predicted memory with the kernel's accounting: four processes train a deep, narrow model
 * for a few steps at every stage.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"
#include "libtrain/model/model.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/parallel/store.h"

#define RANKS 4
#define TIMEOUT_MS 120000
#define STEPS 2
#define TOLERANCE 0.05

static const train_model_config_t config = {
    .vocabulary = 256, .context = 32, .layers = 64, .heads = 4, .width = 128};

typedef struct trial {
  train_precision_t precision;
  int stage;
  bool messages_only; /* messages only: no process maps another one's memory */
} trial_t;

/* A value in a /proc file, as in "VmHWM:  123 kB", in bytes; 0 if it is missing. */
static double kernel_bytes(const char *path, const char *name) {
  char line[256];
  double kib = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) kib = strtod(line + strlen(name), NULL);
  }
  fclose(file);
  return kib * 1024;
}

/* The peak of this process's private memory, or its share of memory shared by all ranks, which
 * never shrinks. */
static double resident(const trial_t *trial) {
  if (trial->messages_only) return kernel_bytes("/proc/self/status", "VmHWM:");
  return kernel_bytes("/proc/self/smaps_rollup", "Pss:");
}

static int use_messages(coll_comm_t comm) {
  const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_REDUCE_SCATTER, COLL_ALLGATHER};
  for (int i = 0; i < 3; i++) PARTY_OK(coll_comm_algo_set(comm, collectives[i], "ring"));
  return 0;
}

/* A model of one layer that has trained before memory is measured: what the libraries of products
 * allocate for the shapes of the large model is not what the test is about. It is kept until the
 * end, so that nothing else gets its memory. */
typedef struct warm_up {
  train_layout_t *layout;
  train_model_t *model;
  train_arena_t arena;
} warm_up_t;

static int warm_up(coll_comm_t comm, const trial_t *trial, warm_up_t *made) {
  static float values[64 * 64];
  static const int32_t tokens[32];
  const train_model_options_t options = {.sequences = 1, .precision = trial->precision};
  train_model_config_t small = config;
  double loss;
  small.layers = 1;
  PARTY_OK(train_layout_create(&small, &made->layout));
  PARTY_OK(train_model_create(made->layout, &options, &made->model));
  size_t count = made->layout->parameter_count;
  made->arena =
      (train_arena_t){.layout = made->layout,
                      .dtype = train_precision_stored(trial->precision, TRAIN_KIND_WEIGHTS),
                      .parameters = calloc(count, sizeof(float)),
                      .gradients = calloc(count, sizeof(float))};
  train_param_provider_t provider = train_arena_provider(&made->arena);
  PARTY_OK(
      train_model_forward_backward(made->model, &provider, tokens, tokens, 1, 32, 0.01f, &loss));
  /* A communicator's ring buffers get their pages with the first payloads. */
  PARTY_OK(coll_allreduce(values, values, 64 * 64, COLL_FLOAT32, COLL_SUM, comm, NULL));
  return 0;
}

static void cool_down(warm_up_t *made) {
  free(made->arena.parameters);
  free(made->arena.gradients);
  train_model_destroy(made->model);
  train_layout_destroy(made->layout);
}

static int train(const train_group_t *group, train_store_t *store, train_model_t *model) {
  const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  train_param_provider_t provider = train_store_provider(store);
  int32_t tokens[32], targets[32];
  for (int i = 0; i < 32; i++) {
    tokens[i] = i;
    targets[i] = (i + group->rank) % 256;
  }
  PARTY_OK(train_store_initialize(store, 1));
  for (uint64_t step = 1; step <= STEPS; step++) {
    double loss, squares;
    train_store_begin(store, 1);
    PARTY_OK(train_model_forward_backward(model, &provider, tokens, targets, 1, 32, 0.01f, &loss));
    PARTY_OK(train_store_finish(store, &squares));
    PARTY_OK(train_store_update(store, &adamw, 1, 1e-4f, step));
  }
  return 0;
}

static int check(const train_group_t *group, const trial_t *trial, double held,
                 const train_memory_t *memory) {
  double predicted = (double)(memory->parameters + memory->weights + memory->gradients +
                              memory->moments + memory->workspaces + memory->activations);
  PARTY_OK(train_group_sum_doubles(group, &held, 1));
  held /= RANKS;
  PARTY_REQUIRE(fabs(held - predicted) <= TOLERANCE * predicted,
                "%s, stage %d, %s: %.1f MiB held, %.1f predicted",
                train_policy_of(trial->precision)->name, trial->stage,
                trial->messages_only ? "messages" : "mapped", held / 1048576, predicted / 1048576);
  return 0;
}

static int body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_group_t group;
  train_layout_t *layout;
  train_store_t *store;
  train_model_t *model;
  train_memory_t memory;
  warm_up_t small;
  train_store_options_t options = TRAIN_STORE_OPTIONS_INIT;
  const train_model_options_t model_options = {.sequences = 1, .precision = trial->precision};
  options.stage = trial->stage;
  options.precision = trial->precision;
  options.bucket_bytes = 1 << 20;
  if (trial->messages_only) PARTY_TRY(use_messages(self->comm));
  PARTY_TRY(warm_up(self->comm, trial, &small));
  PARTY_OK(train_group_init(self->comm, &group));
  PARTY_OK(coll_barrier(self->comm, NULL));
  double before = resident(trial);
  PARTY_OK(train_layout_create(&config, &layout));
  PARTY_OK(train_store_create(layout, &group, &options, &store));
  PARTY_OK(train_model_create(layout, &model_options, &model));
  PARTY_OK(train_memory_predict(layout, &model_options, &options, RANKS, &memory));
  int failed = train(&group, store, model);
  PARTY_OK(coll_barrier(self->comm, NULL));
  double held = resident(trial) - before;
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (!failed) failed = check(&group, trial, held, &memory);
  train_model_destroy(model);
  train_store_destroy(store);
  train_layout_destroy(layout);
  cool_down(&small);
  return failed;
}

/* Unless all cases are run, float32 and bf16 take turns: each stage is checked with messages in one
 * of them and with mapped memory in the other. */
static bool is_checked(train_precision_t precision, int stage, int messages_only) {
  bool is_float32 = precision == TRAIN_PRECISION_FLOAT32;
  return harness_full() || (stage % 2 == messages_only) == is_float32;
}

static void check_precision(train_precision_t precision) {
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    for (int messages_only = 0; messages_only <= 1; messages_only++) {
      if (!is_checked(precision, stage, messages_only)) continue;
      trial_t trial = {.precision = precision, .stage = stage, .messages_only = messages_only};
      harness_result_t result;
      cr_assert(party_processes(RANKS, TIMEOUT_MS, body, &trial, &result), "%s", result.text);
    }
  }
}

Test(parallel_resident, memory_matches_the_prediction) {
  check_precision(TRAIN_PRECISION_FLOAT32);
}

Test(parallel_resident, memory_matches_the_prediction_in_mixed_precision) {
  check_precision(TRAIN_PRECISION_BF16);
  if (harness_full()) {
    check_precision(TRAIN_PRECISION_BF16_PURE);
    check_precision(TRAIN_PRECISION_FP16);
  }
}
