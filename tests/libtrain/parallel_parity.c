/*
 * Training must give the same results for all ranks, stages, micro-batches and recomputation, in
 * every precision: compares losses and parameters with those of a single rank, and the bits of a
 * repeated run.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"
#include "harness/sample.h"
#include "libtrain/common/random.h"
#include "libtrain/model/model.h"
#include "libtrain/parallel/store.h"

#define TIMEOUT_MS 120000
#define ROWS 24 /* per step; divisible by 1 to 4 ranks and 1 or 2 micro-batches */
#define STEPS 20
#define SEED 5
#define RATE 1e-2f

static const train_model_config_t config = {
    .vocabulary = 37, .context = 6, .layers = 2, .heads = 2, .width = 12};

static const train_adamw_t adamw = TRAIN_ADAMW_INIT;

/* Relative. Sums in another order change the last bits of float32; some of these changes move a
 * value to the next one of a narrow type. */
static const double tolerances[TRAIN_PRECISIONS] = {1e-5, 1e-2, 4e-3, 1e-2};

/* Keeps gradients of activations within float16's range. */
static const float loss_scales[TRAIN_PRECISIONS] = {1, 1, 1024, 1};

typedef struct outcome {
  double losses[STEPS], norms[STEPS];
  float *parameters; /* [parameter_count] */
} outcome_t;

typedef struct trial {
  train_precision_t precision;
  int ranks, stage, micro_batches;
  train_recompute_t recompute;
  outcome_t outcome; /* of rank 0 */
} trial_t;

/* The training state of a rank. */
typedef struct trainer {
  const trial_t *trial;
  train_group_t group;
  train_layout_t *layout;
  train_model_t *model;
  train_store_t *store;
} trainer_t;

/* Rows of a step: text in which a token mostly determines the next one. */
static void fill_row(uint64_t step, int row, int32_t *tokens, int32_t *targets) {
  uint64_t at = (step * ROWS + (uint64_t)row) * (uint64_t)(config.context + 1);
  int32_t token = (int32_t)train_random_below(SEED, TRAIN_RANDOM_BATCHES, at, 37);
  for (int i = 0; i < config.context; i++) {
    tokens[i] = token;
    token = (token * 7 + (int32_t)train_random_below(SEED, TRAIN_RANDOM_BATCHES, ++at, 3)) % 37;
    targets[i] = token;
  }
}

/* Gradients are multiplied by the precision's loss scale. */
static int compute_gradients(const trainer_t *self, uint64_t step, double *loss) {
  int micro_batches = self->trial->micro_batches;
  int rows = ROWS / self->group.size / micro_batches;
  int32_t tokens[ROWS * 6], targets[ROWS * 6];
  train_param_provider_t provider = train_store_provider(self->store);
  float scale = 1.0f / (float)(ROWS * config.context);
  train_store_begin(self->store, micro_batches);
  *loss = 0;
  for (int micro = 0; micro < micro_batches; micro++) {
    double sum;
    int first = (self->group.rank * micro_batches + micro) * rows;
    for (int row = 0; row < rows; row++) {
      fill_row(step, first + row, tokens + row * config.context, targets + row * config.context);
    }
    PARTY_OK(train_model_forward_backward(self->model, &provider, tokens, targets, rows,
                                          config.context,
                                          scale * loss_scales[self->trial->precision], &sum));
    *loss += sum * (double)scale;
  }
  return 0;
}

static int take_step(const trainer_t *self, uint64_t step, outcome_t *outcome) {
  double sums[2];
  PARTY_TRY(compute_gradients(self, step, &sums[0]));
  PARTY_OK(train_store_finish(self->store, &sums[1]));
  PARTY_OK(train_group_sum_doubles(&self->group, sums, 2));
  float loss_scale = loss_scales[self->trial->precision];
  double norm = sqrt(sums[1]) / (double)loss_scale;
  PARTY_OK(train_store_update(self->store, &adamw, train_gradient_clip(norm, 0.5) / loss_scale,
                              RATE, step + 1));
  if (self->group.rank == 0) {
    outcome->losses[step] = sums[0];
    outcome->norms[step] = norm;
  }
  return 0;
}

static int train(const trainer_t *self, outcome_t *outcome) {
  train_flat_t flat = train_store_flat(self->store);
  size_t count = self->layout->parameter_count;
  float *mine = malloc(count * sizeof *mine);
  PARTY_OK(train_store_initialize(self->store, SEED));
  for (uint64_t step = 0; step < STEPS; step++) PARTY_TRY(take_step(self, step, outcome));
  PARTY_OK(flat.read(flat.context, TRAIN_PARAMETERS, 0, count, mine));
  if (self->group.rank == 0) memcpy(outcome->parameters, mine, count * sizeof *mine);
  free(mine);
  return 0;
}

static int rank_body(party_rank_t *party) {
  trial_t *trial = party->context;
  trainer_t self = {.trial = trial};
  const train_store_options_t options = {.stage = trial->stage,
                                         .bucket_bytes = 2048,
                                         .precision = trial->precision,
                                         .comm.overlap = true};
  const train_model_options_t model = {.sequences = ROWS / party->size / trial->micro_batches,
                                       .recompute = trial->recompute,
                                       .precision = trial->precision};
  PARTY_OK(train_group_init(party->comm, &self.group));
  PARTY_OK(train_layout_create(&config, &self.layout));
  PARTY_OK(train_model_create(self.layout, &model, &self.model));
  PARTY_OK(train_store_create(self.layout, &self.group, &options, &self.store));
  int failed = train(&self, &trial->outcome);
  train_store_destroy(self.store);
  train_model_destroy(self.model);
  train_layout_destroy(self.layout);
  return failed;
}

static train_layout_t *layout;

static void run(trial_t *trial) {
  harness_result_t result;
  trial->outcome.parameters = malloc(layout->parameter_count * sizeof(float));
  cr_assert(party_threads(trial->ranks, TIMEOUT_MS, rank_body, trial, &result),
            "%s, stage %d, %d ranks: %s", train_policy_of(trial->precision)->name, trial->stage,
            trial->ranks, result.text);
}

/* Whether the element is a key bias. It shifts all scores of a row equally, which softmax ignores.
 * Its gradient is therefore rounding noise, which AdamW scales up to full steps. */
static bool is_noise(const train_tensor_t *tensor, int element) {
  const train_tensor_t *biases = train_layout_tensor(layout, tensor->unit, TRAIN_QKV_BIAS);
  return tensor->unit > 0 && tensor == biases && element / config.width == 1;
}

/* Distance between two states of a tensor, relative to its norm. */
static double distance(const train_tensor_t *tensor, const float *one, const float *other) {
  double difference = 0, length = 0;
  for (int i = 0; i < tensor->rows * tensor->columns; i++) {
    size_t at = tensor->offset + (size_t)i;
    if (is_noise(tensor, i)) continue;
    difference += pow((double)one[at] - (double)other[at], 2);
    length += pow((double)one[at], 2);
  }
  return sqrt(difference / length);
}

static void check_close(const trial_t *single_rank, const trial_t *trial) {
  double tolerance = tolerances[trial->precision];
  char what[128];
  snprintf(what, sizeof what, "%s, %d ranks, stage %d, %d micro-batches, recomputing %d",
           train_policy_of(trial->precision)->name, trial->ranks, trial->stage,
           trial->micro_batches, (int)trial->recompute);
  for (int step = 0; step < STEPS; step++) {
    double loss = single_rank->outcome.losses[step], norm = single_rank->outcome.norms[step];
    cr_assert_float_eq(trial->outcome.losses[step], loss, tolerance * loss,
                       "%s: loss %.9g at step %d, alone %.9g", what, trial->outcome.losses[step],
                       step, loss);
    cr_assert_float_eq(trial->outcome.norms[step], norm, tolerance * norm,
                       "%s: norm %.9g at step %d, alone %.9g", what, trial->outcome.norms[step],
                       step, norm);
  }
  for (int i = 0; i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    double difference =
        distance(tensor, single_rank->outcome.parameters, trial->outcome.parameters);
    cr_assert_leq(difference, tolerance, "%s: %s is %g apart", what, tensor->name, difference);
  }
}

static void setup(void) {
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
}

static void teardown(void) {
  train_layout_destroy(layout);
}

TestSuite(parallel_parity, .init = setup, .fini = teardown);

static trial_t run_single_rank(train_precision_t precision) {
  trial_t trial = {.precision = precision, .ranks = 1, .micro_batches = 1};
  run(&trial);
  return trial;
}

Test(parallel_parity, one_rank_reduces_the_loss_in_every_precision) {
  double reached = 0;
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    trial_t trial = run_single_rank((train_precision_t)i);
    double first = trial.outcome.losses[0], last = trial.outcome.losses[STEPS - 1];
    cr_assert_lt(last, 0.8 * first);
    if (i == TRAIN_PRECISION_FLOAT32) reached = last;
    cr_assert_float_eq(last, reached, 0.05 * reached, "%s: loss %g, in float32 %g",
                       train_policy_of(trial.precision)->name, last, reached);
    free(trial.outcome.parameters);
  }
}

/* All ranks, micro-batches and recomputations, or a sample in which each of them comes up. */
static void check_stage(train_precision_t precision, int stage) {
  trial_t single_rank = run_single_rank(precision);
  for (int ranks = 1; ranks <= 4; ranks++) {
    for (int each = 0; each < 6; each++) {
      trial_t trial = {.precision = precision,
                       .ranks = ranks,
                       .stage = stage,
                       .micro_batches = 1 + each % 2,
                       .recompute = (train_recompute_t)(each / 2)};
      if (!harness_full() && (each != (ranks + 2 * stage) % 6 || ranks == 3)) continue;
      run(&trial);
      check_close(&single_rank, &trial);
      free(trial.outcome.parameters);
    }
  }
  free(single_rank.outcome.parameters);
}

Test(parallel_parity, stage_0) {
  check_stage(TRAIN_PRECISION_FLOAT32, 0);
}

Test(parallel_parity, stage_1) {
  check_stage(TRAIN_PRECISION_FLOAT32, 1);
}

Test(parallel_parity, stage_2) {
  check_stage(TRAIN_PRECISION_FLOAT32, 2);
}

Test(parallel_parity, stage_3) {
  check_stage(TRAIN_PRECISION_FLOAT32, 3);
}

static void check_precision(train_precision_t precision) {
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) check_stage(precision, stage);
}

Test(parallel_parity, bf16) {
  check_precision(TRAIN_PRECISION_BF16);
}

Test(parallel_parity, fp16) {
  check_precision(TRAIN_PRECISION_FP16);
}

Test(parallel_parity, bf16_pure) {
  check_precision(TRAIN_PRECISION_BF16_PURE);
}

Test(parallel_parity, repeated_run_is_bit_identical) {
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    trial_t first = {.precision = (train_precision_t)stage, /* all are met */
                     .ranks = 3,
                     .stage = stage,
                     .micro_batches = 2};
    trial_t second = first;
    run(&first);
    run(&second);
    cr_assert_arr_eq(first.outcome.losses, second.outcome.losses, sizeof first.outcome.losses);
    cr_assert_arr_eq(first.outcome.parameters, second.outcome.parameters,
                     layout->parameter_count * sizeof(float), "stage %d", stage);
    free(first.outcome.parameters);
    free(second.outcome.parameters);
  }
}
