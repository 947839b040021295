/* Compares memory and traffic with the ZeRO paper's formulas, for large and small models. */
#include <criterion/criterion.h>
#include <math.h>

#include "libtrain/parallel/memory.h"

static size_t states_of(const train_memory_t *memory) {
  return memory->parameters + memory->gradients + memory->moments;
}

static train_memory_t predict(const train_layout_t *layout, int stage, int ranks) {
  train_store_options_t options = TRAIN_STORE_OPTIONS_INIT;
  const train_model_options_t model = {.sequences = 1};
  train_memory_t memory;
  options.stage = stage;
  cr_assert_eq(train_memory_predict(layout, &model, &options, ranks, &memory), COLL_OK);
  return memory;
}

/* Table 1 of the ZeRO paper with 4 bytes per parameter, 4 per gradient and 8 for the moments. */
static double paper_bytes(double parameters, int stage, double ranks) {
  switch (stage) {
    case 0: return 16 * parameters;
    case 1: return 8 * parameters + 8 * parameters / ranks;
    case 2: return 4 * parameters + 12 * parameters / ranks;
    default: return 16 * parameters / ranks;
  }
}

static void check_preset(const char *name) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find(name, &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    for (int ranks = 1; ranks <= 64; ranks += 1 + ranks / 2) {
      train_memory_t memory = predict(layout, stage, ranks);
      double expected = paper_bytes((double)layout->parameter_count, stage, ranks);
      cr_assert_float_eq((double)states_of(&memory), expected, 1e-3 * expected,
                         "%s, stage %d, %d ranks: %zu bytes, the paper says %.0f", name, stage,
                         ranks, states_of(&memory), expected);
    }
  }
  train_layout_destroy(layout);
}

Test(parallel_memory, memory_matches_the_paper) {
  check_preset("gpt2");
  check_preset("gpt2-xl");
}

Test(parallel_memory, workspaces_have_the_documented_size) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find("gpt2", &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  double ends = (double)layout->units[0].count, block = (double)layout->units[1].count;
  const double expected[] = {0, 0, ends + 2 * block, ends + 2 * block + ends + block};
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    train_memory_t memory = predict(layout, stage, 4);
    cr_assert_float_eq((double)memory.workspaces, 4 * expected[stage], 4e-3 * expected[stage]);
  }
  train_layout_destroy(layout);
}

Test(parallel_memory, traffic_matches_the_paper) {
  train_model_config_t config;
  train_layout_t *layout;
  cr_assert_eq(train_preset_find("gpt2", &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  uint64_t bytes = 4 * layout->parameter_count;
  const uint64_t expected[2][4] = {{2 * bytes, 2 * bytes, 2 * bytes, 3 * bytes},
                                   {2 * bytes, 2 * bytes, 4 * bytes, 9 * bytes}};
  for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
    train_store_options_t options = {.stage = stage};
    cr_assert_eq(train_traffic_predict(layout, &options, 8, 1), expected[0][stage]);
    cr_assert_eq(train_traffic_predict(layout, &options, 8, 3), expected[1][stage]);
    cr_assert_eq(train_traffic_predict(layout, &options, 1, 3), 0);
  }
  train_layout_destroy(layout);
}
