/* Compares memory and traffic with the ZeRO paper's formulas, for large and small models. */
#include <criterion/criterion.h>
#include <math.h>

#include "libtrain/parallel/memory.h"

static size_t states_of(const train_memory_t *memory) {
  return memory->parameters + memory->weights + memory->gradients + memory->moments;
}

static train_memory_t predict(const train_layout_t *layout, train_precision_t precision, int stage,
                              int ranks) {
  train_store_options_t options = TRAIN_STORE_OPTIONS_INIT;
  const train_model_options_t model = {.sequences = 1};
  train_memory_t memory;
  options.stage = stage;
  options.precision = precision;
  cr_assert_eq(train_memory_predict(layout, &model, &options, ranks, &memory), COLL_OK);
  return memory;
}

/* Table 1 of the ZeRO paper with `weights` bytes per weight, 4 per gradient and `states` for the
 * parameters, if they are not the weights, and the moments. */
static double paper_bytes(train_precision_t precision, double parameters, int stage, double ranks) {
  const double weights[TRAIN_PRECISIONS] = {4, 2, 2, 2}, states[TRAIN_PRECISIONS] = {8, 12, 12, 8};
  double w = weights[precision], k = states[precision];
  switch (stage) {
    case 0: return (w + 4 + k) * parameters;
    case 1: return (w + 4) * parameters + k * parameters / ranks;
    case 2: return w * parameters + (4 + k) * parameters / ranks;
    default: return (w + 4 + k) * parameters / ranks;
  }
}

static void check_preset(const char *name, train_precision_t precision) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find(name, &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    for (int ranks = 1; ranks <= 64; ranks += 1 + ranks / 2) {
      train_memory_t memory = predict(layout, precision, stage, ranks);
      double expected = paper_bytes(precision, (double)layout->parameter_count, stage, ranks);
      cr_assert_float_eq((double)states_of(&memory), expected, 1e-3 * expected,
                         "%s, %s, stage %d, %d ranks: %zu bytes, the paper says %.0f", name,
                         train_policy_of(precision)->name, stage, ranks, states_of(&memory),
                         expected);
      cr_assert_eq(memory.weights > 0, train_precision_copies_weights(precision));
    }
  }
  train_layout_destroy(layout);
}

Test(parallel_memory, memory_matches_the_paper) {
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    check_preset("gpt2", (train_precision_t)i);
    check_preset("gpt2-xl", (train_precision_t)i);
  }
}

/* Rank 0 has what stage 0 has; the others have no moments and, where the weights are a copy, no
 * parameters. */
Test(parallel_memory, only_the_main_rank_of_naive_parallelism_holds_what_updates_need) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find("gpt2", &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  double count = (double)layout->parameter_count;
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    train_store_options_t options = {.naive = true, .precision = (train_precision_t)i};
    double weights = i == TRAIN_PRECISION_FLOAT32 ? 4 : 2;
    const train_memory_t all = predict(layout, options.precision, 0, 4),
                         of_main = train_memory_on_rank(&options, 0, &all),
                         of_other = train_memory_on_rank(&options, 3, &all);
    cr_assert_eq(states_of(&of_main), states_of(&all));
    cr_assert_float_eq((double)states_of(&of_other), (weights + 4) * count, 1e-3 * count);
    options.naive = false;
    const train_memory_t alike = train_memory_on_rank(&options, 3, &all);
    cr_assert_eq(states_of(&alike), states_of(&all));
  }
  train_layout_destroy(layout);
}

Test(parallel_memory, workspaces_have_the_documented_size) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find("gpt2", &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  double ends = (double)layout->units[0].count, block = (double)layout->units[1].count;
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    double gradients = 4 * (ends + 2 * block);
    double weights = (i == TRAIN_PRECISION_FLOAT32 ? 4 : 2) * (ends + block);
    const double expected[] = {0, 0, gradients, gradients + weights};
    for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
      train_memory_t memory = predict(layout, (train_precision_t)i, stage, 4);
      cr_assert_float_eq((double)memory.workspaces, expected[stage], 1e-3 * expected[stage]);
    }
  }
  train_layout_destroy(layout);
}

Test(parallel_memory, traffic_matches_the_paper) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find("gpt2", &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  uint64_t parameters = layout->parameter_count;
  for (int i = 0; i < 2 * TRAIN_PRECISIONS; i++) {
    train_store_options_t options = {.precision = (train_precision_t)(i / 2)};
    options.comm.bfloat16 = i % 2 == 1;
    uint64_t gradient = i % 2 == 1 ? 2 : 4;
    uint64_t weight = i / 2 == TRAIN_PRECISION_FLOAT32 ? 4 : 2;
    uint64_t gathered = options.comm.bfloat16 ? 2 : weight; /* at stage 3 */
    const uint64_t expected[2][4] = {
        {2 * gradient, gradient + weight, gradient + weight, gradient + 2 * gathered},
        {2 * gradient, gradient + weight, 3 * gradient + weight, 3 * (gradient + 2 * gathered)}};
    options.naive = true;
    cr_assert_eq(train_traffic_predict(layout, &options, 8, 3), parameters * (gradient + weight));
    options.naive = false;
    for (options.stage = 0; options.stage <= TRAIN_STAGE_MAX; options.stage++) {
      cr_assert_eq(train_traffic_predict(layout, &options, 8, 1),
                   parameters * expected[0][options.stage]);
      cr_assert_eq(train_traffic_predict(layout, &options, 8, 3),
                   parameters * expected[1][options.stage]);
      cr_assert_eq(train_traffic_predict(layout, &options, 1, 3), 0);
    }
  }
  train_layout_destroy(layout);
}
