/* Tests the ZeRO paper's tables against the values printed in it (SC 2020; arXiv 1910.02054v3). */
#include <criterion/criterion.h>

#include "libtrain/planner/zero_tables.h"

/* Table 1: GB per device; for each model P_os, P_os+g, P_os+g+p. */
static const char *const table1[TRAIN_ZERO_DEGREES][TRAIN_ZERO_SIZES][3] = {
    {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}},
    {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}},
    {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}},
    {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}},
    {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}},
    {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}}};

/* Table 2, left: baseline, P_os, P_os+g, P_os+g+p. */
static const char *const table2[TRAIN_ZERO_SPLITS][TRAIN_ZERO_STAGES] = {
    {"2B", "7.6B", "14.4B", "128B"},
    {"4B", "15.2B", "28.8B", "256B"},
    {"8B", "30.4B", "57.6B", "0.5T"},
    {"16B", "60.8B", "115.2B", "1T"},
    {"32B", "121.6B", "230.4B", "2T"}};

Test(zero_tables, memory_per_device) {
  char text[TRAIN_ZERO_TEXT];
  for (int i = 0; i < TRAIN_ZERO_DEGREES; i++) {
    for (int size = 0; size < TRAIN_ZERO_SIZES; size++) {
      for (int stage = 1; stage < TRAIN_ZERO_STAGES; stage++) {
        double bytes = train_zero_bytes_per_parameter(stage, train_zero_degrees[i]);
        train_zero_memory_text(bytes * train_zero_sizes[size], text);
        cr_expect_str_eq(text, table1[i][size][stage - 1], "DP %d, %g B, stage %d: %s",
                         train_zero_degrees[i], train_zero_sizes[size], stage, text);
      }
    }
  }
}

Test(zero_tables, largest_model) {
  char text[TRAIN_ZERO_TEXT];
  for (int i = 0; i < TRAIN_ZERO_SPLITS; i++) {
    for (int stage = 0; stage < TRAIN_ZERO_STAGES; stage++) {
      train_zero_model_text(stage, train_zero_splits[i], text);
      cr_expect_str_eq(text, table2[i][stage], "MP %d, stage %d: %s", train_zero_splits[i], stage,
                       text);
    }
  }
}

/* The example of the paper's Figure 1: 7.5 B parameters on 64 ranks. */
Test(zero_tables, figure1) {
  const double printed[TRAIN_ZERO_STAGES] = {120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage < TRAIN_ZERO_STAGES; stage++) {
    cr_expect_float_eq(7.5 * train_zero_bytes_per_parameter(stage, 64), printed[stage], 0.05);
  }
}
