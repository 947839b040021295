/*
 * Compares the store with plain arrays. The passes of a toy model give small integer gradients, so
 * that sums are exact in any order and in bfloat16. All parameters must be bit-identical for every
 * stage, number of ranks and overlap, in every precision.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "harness/party.h"
#include "libtrain/common/random.h"
#include "libtrain/parallel/memory.h"
#include "libtrain/parallel/store.h"

#define TIMEOUT_MS 120000
#define ROWS 24 /* per step; divisible by 1 to 4 ranks and 1 or 2 micro-batches */
#define STEPS 3
#define RATE 0.01f
#define SEED 77

static const train_model_config_t config = {
    .vocabulary = 19, .context = 7, .layers = 3, .heads = 1, .width = 9};

static const train_adamw_t adamw = TRAIN_ADAMW_INIT;

typedef struct trial {
  train_store_options_t options;
  int micro_batches;
  bool delays;                         /* ranks sleep for random times */
  uint64_t first_step;                 /* step to resume from; 0: a new model */
  const float *expected[TRAIN_ARRAYS]; /* [1 + STEPS, parameter_count]: state before each step */
} trial_t;

/* The gradient of one row: -4 .. 4. */
static float row_gradient(uint64_t step, int row, size_t element) {
  uint64_t index = (step * ROWS + (uint64_t)row) << 32 | element;
  return (float)train_random_below(SEED, TRAIN_RANDOM_BATCHES, index, 9) - 4.0f;
}

static double rows_gradient(uint64_t step, int first, int count, size_t element) {
  double sum = 0;
  for (int row = first; row < first + count; row++) sum += (double)row_gradient(step, row, element);
  return sum;
}

/* One step on plain arrays, in place; the parameters are converted to their type and back. */
static void step_plain_arrays(const train_layout_t *layout, train_precision_t precision,
                              uint64_t step, const float *gradients, float *after[TRAIN_ARRAYS]) {
  size_t count = layout->parameter_count;
  train_dtype_t dtype = train_precision_stored(precision, TRAIN_KIND_PARAMETERS);
  float *parameters = malloc(count * sizeof *parameters),
        *weights = malloc(count * sizeof *weights);
  train_dtype_narrow(dtype, after[TRAIN_PARAMETERS], count, parameters);
  const train_adamw_arrays_t arrays = {
      .precision = precision,
      .gradients = gradients,
      .parameters = parameters,
      .weights = train_precision_copies_weights(precision) ? weights : NULL,
      .first_moments = after[TRAIN_FIRST_MOMENTS],
      .second_moments = after[TRAIN_SECOND_MOMENTS]};
  train_adamw_step(NULL, &adamw, layout, 0, count, &arrays, 0.125f, RATE, step + 1);
  train_dtype_widen(dtype, parameters, count, after[TRAIN_PARAMETERS]);
  free(parameters);
  free(weights);
}

/* Computes all steps on plain arrays: the state before each step and after the last. */
static void compute_expected(const train_layout_t *layout, train_precision_t precision,
                             float *all[TRAIN_ARRAYS]) {
  size_t count = layout->parameter_count;
  train_dtype_t dtype = train_precision_stored(precision, TRAIN_KIND_PARAMETERS);
  float *gradients = malloc(count * sizeof *gradients);
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    all[array] = calloc((STEPS + 1) * count, sizeof(float));
  }
  train_layout_initialize(NULL, layout, SEED, 0, count, all[TRAIN_PARAMETERS]);
  train_dtype_narrow(dtype, all[TRAIN_PARAMETERS], count, all[TRAIN_PARAMETERS]);
  train_dtype_widen(dtype, all[TRAIN_PARAMETERS], count, all[TRAIN_PARAMETERS]);
  for (uint64_t step = 0; step < STEPS; step++) {
    float *after[TRAIN_ARRAYS];
    for (int array = 0; array < TRAIN_ARRAYS; array++) {
      after[array] = all[array] + (step + 1) * count;
      memcpy(after[array], all[array] + step * count, count * sizeof(float));
    }
    for (size_t i = 0; i < count; i++) gradients[i] = (float)rows_gradient(step, 0, ROWS, i);
    step_plain_arrays(layout, precision, step, gradients, after);
  }
  free(gradients);
}

static void sleep_randomly(const trial_t *trial, int rank, uint64_t index) {
  if (!trial->delays) return;
  uint64_t draw = train_random_bits(SEED, TRAIN_RANDOM_SAMPLING, index * 64 + (uint64_t)rank);
  if (draw % 4 == 0) base_clock_sleep_ns(draw % 300000);
}

/* Whether the unit's weights are the expected parameters, rounded to the type of weights; float32
 * that is sent as bfloat16 is rounded in some way. */
static bool is_unit_right(const trial_t *trial, const train_layout_t *layout, uint64_t step,
                          int unit, const void *weights) {
  const train_unit_t *at = &layout->units[unit];
  const float *expected =
      trial->expected[TRAIN_PARAMETERS] + step * layout->parameter_count + at->offset;
  train_dtype_t dtype = train_precision_stored(trial->options.precision, TRAIN_KIND_WEIGHTS);
  bool rounded =
      dtype == TRAIN_FLOAT32 && trial->options.stage == 3 && trial->options.comm.bfloat16;
  for (size_t i = 0; i < at->count; i++) {
    float weight, exact;
    double most = rounded ? fabs((double)expected[i]) / 256 : 0;
    train_dtype_widen(dtype, train_dtype_const_at(dtype, weights, i), 1, &weight);
    train_dtype_narrow(dtype, &expected[i], 1, &exact);
    train_dtype_widen(dtype, &exact, 1, &exact);
    if (!(fabs((double)weight - (double)exact) <= most)) return false;
  }
  return true;
}

static void write_gradients(const train_layout_t *layout, uint64_t step, int first, int rows,
                            int unit, bool overwrite, float *gradients) {
  const train_unit_t *at = &layout->units[unit];
  for (size_t i = 0; i < at->count; i++) {
    float given = (float)rows_gradient(step, first, rows, at->offset + i);
    gradients[i] = overwrite ? given : gradients[i] + given;
  }
}

/* ---- a rank ---- */

typedef struct pass {
  party_rank_t *self;
  const trial_t *trial;
  const train_layout_t *layout;
  train_param_provider_t provider;
  uint64_t step;
  int first_row, rows;
} pass_t;

static int use_unit(const pass_t *pass, int unit, int next) {
  const void *parameters;
  const train_param_provider_t *provider = &pass->provider;
  PARTY_OK(provider->acquire(provider->context, unit, next, &parameters));
  sleep_randomly(pass->trial, pass->self->rank, pass->step * 100 + (uint64_t)unit);
  PARTY_REQUIRE(is_unit_right(pass->trial, pass->layout, pass->step, unit, parameters),
                "step %d: unit %d has wrong parameters", (int)pass->step, unit);
  return 0;
}

static int forward(const pass_t *pass) {
  int last = pass->layout->unit_count - 1;
  for (int unit = 0; unit <= last; unit++) {
    PARTY_TRY(use_unit(pass, unit, unit < last ? unit + 1 : 0));
    pass->provider.release(pass->provider.context, unit);
  }
  return 0;
}

static int backward(const pass_t *pass) {
  const train_param_provider_t *provider = &pass->provider;
  int last = pass->layout->unit_count - 1;
  float *ends, *gradients;
  bool overwrite;
  PARTY_TRY(use_unit(pass, 0, last));
  PARTY_OK(provider->open_gradients(provider->context, 0, &ends, &overwrite));
  write_gradients(pass->layout, pass->step, pass->first_row, pass->rows, 0, overwrite, ends);
  provider->release(provider->context, 0);
  for (int unit = last; unit >= 1; unit--) {
    PARTY_TRY(use_unit(pass, unit, unit > 1 ? unit - 1 : -1));
    PARTY_OK(provider->open_gradients(provider->context, unit, &gradients, &overwrite));
    write_gradients(pass->layout, pass->step, pass->first_row, pass->rows, unit, overwrite,
                    gradients);
    provider->release(provider->context, unit);
    PARTY_OK(provider->close_gradients(provider->context, unit));
  }
  PARTY_OK(provider->close_gradients(provider->context, 0));
  return 0;
}

/* Checks the gradient norm over all ranks. */
static int check_norm(party_rank_t *self, const train_layout_t *layout, uint64_t step,
                      double squares) {
  double expected = 0;
  PARTY_OK(coll_allreduce(&squares, &squares, 1, COLL_FLOAT64, COLL_SUM, self->comm, NULL));
  for (size_t i = 0; i < layout->parameter_count; i++) {
    expected += pow(rows_gradient(step, 0, ROWS, i), 2);
  }
  PARTY_REQUIRE(fabs(squares - expected) <= 1e-9 * expected, "squares %g, not %g", squares,
                expected);
  return 0;
}

static int take_step(party_rank_t *self, train_store_t *store, pass_t *pass) {
  const trial_t *trial = self->context;
  double squares;
  pass->rows = ROWS / self->size / trial->micro_batches;
  train_store_begin(store, trial->micro_batches);
  for (int micro = 0; micro < trial->micro_batches; micro++) {
    pass->first_row = (self->rank * trial->micro_batches + micro) * pass->rows;
    PARTY_TRY(forward(pass));
    PARTY_TRY(backward(pass));
  }
  PARTY_OK(train_store_finish(store, &squares));
  PARTY_TRY(check_norm(self, pass->layout, pass->step, squares));
  PARTY_OK(train_store_update(store, &adamw, 0.125f, RATE, pass->step + 1));
  uint64_t sent = train_store_traffic(store).bytes_sent;
  uint64_t expected =
      train_traffic_predict(pass->layout, &trial->options, self->size, trial->micro_batches);
  PARTY_REQUIRE(sent == expected, "%llu bytes sent, not %llu", (unsigned long long)sent,
                (unsigned long long)expected);
  pass->step++;
  return 0;
}

/* Reads the whole store in chunks that are not aligned with units or buckets. */
static int check_flat(const train_layout_t *layout, train_store_t *store, const trial_t *trial) {
  enum { CHUNK = 157 };
  train_flat_t flat = train_store_flat(store);
  size_t count = layout->parameter_count;
  float chunk[CHUNK];
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    const float *expected = trial->expected[array] + STEPS * count;
    for (size_t at = 0; at < count; at += CHUNK) {
      size_t here = count - at < CHUNK ? count - at : CHUNK;
      PARTY_OK(flat.read(flat.context, (train_array_t)array, at, here, chunk));
      PARTY_REQUIRE(memcmp(chunk, expected + at, here * sizeof *chunk) == 0,
                    "array %d differs from %zu on", array, at);
    }
  }
  return 0;
}

static coll_status_t fill(const trial_t *trial, const train_layout_t *layout,
                          train_store_t *store) {
  train_flat_arrays_t arrays;
  if (trial->first_step == 0) return train_store_initialize(store, SEED);
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    arrays.values[array] = trial->expected[array] + trial->first_step * layout->parameter_count;
  }
  const train_flat_t from = train_flat_of(&arrays);
  return train_store_load(store, &from);
}

static int run_steps(party_rank_t *self, train_layout_t *layout, train_store_t *store) {
  const trial_t *trial = self->context;
  pass_t pass = {.self = self,
                 .trial = trial,
                 .layout = layout,
                 .provider = train_store_provider(store),
                 .step = trial->first_step};
  PARTY_OK(fill(trial, layout, store));
  while (pass.step < STEPS) PARTY_TRY(take_step(self, store, &pass));
  PARTY_TRY(forward(&pass));
  PARTY_TRY(use_unit(&pass, 0, -1));
  pass.provider.release(pass.provider.context, 0);
  return check_flat(layout, store, trial);
}

static int trial_body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_group_t group;
  train_layout_t *layout;
  train_store_t *store;
  train_memory_t memory;
  const train_model_options_t model = {.sequences = 1};
  PARTY_OK(train_group_init(self->comm, &group));
  PARTY_OK(train_layout_create(&config, &layout));
  PARTY_OK(train_store_create(layout, &group, &trial->options, &store));
  PARTY_OK(train_memory_predict(layout, &model, &trial->options, self->size, &memory));
  int failed = run_steps(self, layout, store);
  memory = train_memory_on_rank(&trial->options, self->rank, &memory);
  size_t predicted =
      memory.parameters + memory.weights + memory.gradients + memory.moments + memory.workspaces;
  size_t held = train_store_bytes(store);
  train_store_destroy(store);
  train_layout_destroy(layout);
  PARTY_TRY(failed);
  PARTY_REQUIRE(held == predicted, "%zu bytes held, %zu predicted", held, predicted);
  return 0;
}

/* ---- tests ---- */

static train_layout_t *layout;
static float *expected[TRAIN_PRECISIONS][TRAIN_ARRAYS];

static void setup(void) {
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  for (int precision = 0; precision < TRAIN_PRECISIONS; precision++) {
    compute_expected(layout, (train_precision_t)precision, expected[precision]);
  }
}

static void teardown(void) {
  for (int i = 0; i < TRAIN_PRECISIONS * TRAIN_ARRAYS; i++) {
    free(expected[i / TRAIN_ARRAYS][i % TRAIN_ARRAYS]);
  }
  train_layout_destroy(layout);
}

TestSuite(parallel_store, .init = setup, .fini = teardown);

static void run_trial(const train_store_options_t *options, int ranks, int micro_batches,
                      bool processes) {
  trial_t trial = {.options = *options,
                   .micro_batches = micro_batches,
                   .delays = ranks == 3,
                   .first_step = ranks == 2 ? 1 : 0};
  harness_result_t result;
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    trial.expected[array] = expected[options->precision][array];
  }
  bool right = processes ? party_processes(ranks, TIMEOUT_MS, trial_body, &trial, &result)
                         : party_threads(ranks, TIMEOUT_MS, trial_body, &trial, &result);
  cr_assert(right, "%s, stage %d%s, %d ranks, %d micro-batches, buckets of %zu, %s%s: %s",
            train_policy_of(options->precision)->name, options->stage,
            options->naive ? " naive" : "", ranks, micro_batches, options->bucket_bytes,
            options->comm.overlap ? "overlapping" : "one by one",
            options->comm.bfloat16 ? ", bfloat16" : "", result.text);
}

#define STAGES (TRAIN_STAGE_MAX + 1) /* one more stands for naive data parallelism */

/* All stages, numbers of ranks and of micro-batches; of precisions other than float32 a sample,
 * unless the tests run in full. */
static void run_all(train_precision_t precision, bool overlap, bool bfloat16) {
  bool all = precision == TRAIN_PRECISION_FLOAT32 || harness_full();
  for (int stage = 0; stage <= STAGES; stage++) {
    for (int ranks = 1; ranks <= 4; ranks++) {
      for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
        train_store_options_t options = {.stage = stage % STAGES,
                                         .naive = stage == STAGES,
                                         .bucket_bytes = micro_batches == 1 ? 1024 : 1 << 20,
                                         .precision = precision,
                                         .comm = {.overlap = overlap, .bfloat16 = bfloat16}};
        bool sampled = (stage + ranks + micro_batches + (int)precision + overlap) % 2 == 0;
        if (all || sampled) run_trial(&options, ranks, micro_batches, false);
      }
    }
  }
}

Test(parallel_store, all_stages_give_the_same_result) {
  run_all(TRAIN_PRECISION_FLOAT32, true, false);
}

Test(parallel_store, all_stages_give_the_same_result_without_overlap) {
  run_all(TRAIN_PRECISION_FLOAT32, false, false);
}

Test(parallel_store, bfloat16_only_rounds_parameters) {
  run_all(TRAIN_PRECISION_FLOAT32, true, true);
  run_all(TRAIN_PRECISION_FLOAT32, false, true);
}

static void run_precision(train_precision_t precision) {
  run_all(precision, true, false);
  run_all(precision, false, false);
  run_all(precision, true, true);
  if (harness_full()) run_all(precision, false, true);
}

Test(parallel_store, bf16_gives_the_same_result_at_all_stages) {
  run_precision(TRAIN_PRECISION_BF16);
}

Test(parallel_store, fp16_gives_the_same_result_at_all_stages) {
  run_precision(TRAIN_PRECISION_FP16);
}

Test(parallel_store, bf16_pure_gives_the_same_result_at_all_stages) {
  run_precision(TRAIN_PRECISION_BF16_PURE);
}

Test(parallel_store, ranks_can_be_processes) {
  for (int stage = 0; stage <= STAGES; stage++) {
    for (int precision = 0; precision < TRAIN_PRECISIONS; precision++) {
      train_store_options_t options = {.stage = stage % STAGES,
                                       .naive = stage == STAGES,
                                       .bucket_bytes = 1024,
                                       .precision = (train_precision_t)precision,
                                       .comm.overlap = true};
      run_trial(&options, 3, 2, true);
    }
  }
}
