/* Puts infinities and NaNs into the gradients of one rank, or into the parameters, and checks which
 * tensor the store finds. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "harness/party.h"
#include "libtrain/parallel/store.h"

#define TIMEOUT_MS 60000
#define RANKS 3

static const train_model_config_t config = {
    .vocabulary = 19, .context = 7, .layers = 3, .heads = 1, .width = 9};

/* Values that are not finite, in tensors of the layout; -1 for none. */
typedef struct trial {
  train_store_options_t options;
  int gradient_tensors[2]; /* the first on rank 1, the second on the last rank */
  int parameter_tensor;
  float value; /* of the last element of the tensor */
  int expected;
  train_kind_t expected_kind;
} trial_t;

static size_t last_element(const train_layout_t *layout, int tensor) {
  const train_tensor_t *at = &layout->tensors[tensor];
  return at->offset + (size_t)(at->rows * at->columns) - 1;
}

/* ---- parameters ---- */

typedef struct contents {
  const trial_t *trial;
  const train_layout_t *layout;
} contents_t;

static coll_status_t read_contents(void *context, train_array_t array, size_t first, size_t count,
                                   float *values) {
  const contents_t *contents = context;
  int tensor = contents->trial->parameter_tensor;
  memset(values, 0, count * sizeof *values);
  if (array != TRAIN_PARAMETERS || tensor < 0) return COLL_OK;
  size_t at = last_element(contents->layout, tensor);
  if (at >= first && at < first + count) values[at - first] = contents->trial->value;
  return COLL_OK;
}

/* ---- gradients ---- */

static int close_unit(const train_param_provider_t *provider, int unit) {
  PARTY_OK(provider->close_gradients(provider->context, unit));
  return 0;
}

/* Gradients of 1, except for the values of this rank. */
static int open_unit(party_rank_t *self, const train_layout_t *layout,
                     const train_param_provider_t *provider, int unit) {
  const trial_t *trial = self->context;
  const train_unit_t *at = &layout->units[unit];
  int tensor = self->rank == 1                ? trial->gradient_tensors[0]
               : self->rank == self->size - 1 ? trial->gradient_tensors[1]
                                              : -1;
  float *gradients;
  bool overwrite;
  PARTY_OK(provider->open_gradients(provider->context, unit, &gradients, &overwrite));
  for (size_t i = 0; i < at->count; i++) gradients[i] = 1;
  if (tensor >= 0 && layout->tensors[tensor].unit == unit) {
    gradients[last_element(layout, tensor) - at->offset] = trial->value;
  }
  return 0;
}

static int run(party_rank_t *self, const train_group_t *group, const train_layout_t *layout,
               train_store_t *store) {
  const trial_t *trial = self->context;
  train_param_provider_t provider = train_store_provider(store);
  contents_t contents = {.trial = trial, .layout = layout};
  const train_flat_t from = {.context = &contents, .read = read_contents};
  double squares;
  int found;
  train_kind_t kind;
  PARTY_OK(train_store_load(store, &from));
  train_store_begin(store, 1);
  PARTY_TRY(open_unit(self, layout, &provider, 0));
  for (int unit = layout->unit_count - 1; unit >= 1; unit--) {
    PARTY_TRY(open_unit(self, layout, &provider, unit));
    PARTY_TRY(close_unit(&provider, unit));
  }
  PARTY_TRY(close_unit(&provider, 0));
  PARTY_OK(train_store_finish(store, &squares));
  PARTY_OK(train_store_find_not_finite(store, group, &found, &kind));
  PARTY_REQUIRE(found == trial->expected && (found < 0 || kind == trial->expected_kind),
                "found tensor %d of the %s, expected %d of the %s", found, train_kind_name(kind),
                trial->expected, train_kind_name(trial->expected_kind));
  return 0;
}

static int body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_group_t group;
  train_layout_t *layout;
  train_store_t *store;
  PARTY_OK(train_group_init(self->comm, &group));
  PARTY_OK(train_layout_create(&config, &layout));
  PARTY_OK(train_store_create(layout, &group, &trial->options, &store));
  int failed = run(self, &group, layout, store);
  train_store_destroy(store);
  train_layout_destroy(layout);
  return failed;
}

/* ---- tests ---- */

static void run_trial(trial_t trial) {
  for (int stage = 0; stage <= TRAIN_STAGE_MAX + 1; stage++) {
    harness_result_t result;
    trial.options.naive = stage > TRAIN_STAGE_MAX;
    trial.options.stage = stage % (TRAIN_STAGE_MAX + 1);
    trial.options.bucket_bytes = 1024;
    trial.options.comm.overlap = true;
    cr_assert(party_threads(RANKS, TIMEOUT_MS, body, &trial, &result), "%s, stage %d: %s",
              train_policy_of(trial.options.precision)->name, stage, result.text);
  }
}

Test(parallel_not_finite, finds_nothing_if_all_values_are_finite) {
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    run_trial((trial_t){.options.precision = (train_precision_t)i,
                        .gradient_tensors = {-1, -1},
                        .parameter_tensor = -1,
                        .expected = -1});
  }
}

Test(parallel_not_finite, finds_the_last_gradient) {
  const float values[] = {INFINITY, -INFINITY, NAN};
  for (int i = 0; i < 3; i++) {
    for (int order = 0; order < 2; order++) {
      run_trial((trial_t){.options.precision = TRAIN_PRECISION_BF16,
                          .gradient_tensors = {order ? 29 : 12, order ? 12 : 29},
                          .parameter_tensor = -1,
                          .value = values[i],
                          .expected = 29,
                          .expected_kind = TRAIN_KIND_GRADIENTS});
    }
  }
}

/* All gradients behind such a weight are not finite, too. */
Test(parallel_not_finite, weights_are_searched_before_gradients) {
  run_trial((trial_t){.options.precision = TRAIN_PRECISION_BF16,
                      .gradient_tensors = {12, 29},
                      .parameter_tensor = 8,
                      .value = NAN,
                      .expected = 8,
                      .expected_kind = TRAIN_KIND_WEIGHTS});
}

Test(parallel_not_finite, finds_every_tensor) {
  const int tensors = TRAIN_ROOT_TENSORS + 3 * TRAIN_BLOCK_TENSORS;
  for (int tensor = 0; tensor < tensors; tensor++) {
    run_trial((trial_t){.gradient_tensors = {tensor, -1},
                        .parameter_tensor = -1,
                        .value = NAN,
                        .expected = tensor,
                        .expected_kind = TRAIN_KIND_GRADIENTS});
  }
}

Test(parallel_not_finite, finds_a_weight_if_all_gradients_are_finite) {
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    run_trial((trial_t){.options.precision = (train_precision_t)i,
                        .gradient_tensors = {-1, -1},
                        .parameter_tensor = 17,
                        .value = i == TRAIN_PRECISION_FP16 ? 70000 : NAN, /* float16 ends before */
                        .expected = 17,
                        .expected_kind = TRAIN_KIND_WEIGHTS});
  }
}
