/* gpt plan --zero-table: the tables of the ZeRO paper. */
#include <stdio.h>

#include "libtrain/planner/zero_tables.h"
#include "tools/gpt/plan.h"

static const char *const stage_names[TRAIN_ZERO_STAGES] = {"baseline", "P_os", "P_os+g",
                                                           "P_os+g+p"};

static void print_stages(int size, int ranks) {
  printf(" |");
  for (int stage = 1; stage < TRAIN_ZERO_STAGES; stage++) {
    char text[TRAIN_ZERO_TEXT];
    double bytes = train_zero_bytes_per_parameter(stage, ranks);
    train_zero_memory_text(bytes * train_zero_sizes[size], text);
    printf(" %8s", text);
  }
}

static void print_memory(void) {
  printf(
      "Memory per device of model states in GB (Rajbhandari et al. 2020, Table 1): 2 bytes per\n"
      "parameter of weights, 2 of gradients and 12 of the optimizer's state, of which each stage "
      "of\n"
      "ZeRO divides one more among the DP data-parallel ranks\n\n");
  printf("%4s | %26s | %26s | %26s\n%4s", "", "7.5B parameters", "128B parameters", "1T parameters",
         "DP");
  for (int size = 0; size < TRAIN_ZERO_SIZES; size++) {
    printf(" |");
    for (int stage = 1; stage < TRAIN_ZERO_STAGES; stage++) printf(" %8s", stage_names[stage]);
  }
  printf("\n");
  for (int i = 0; i < TRAIN_ZERO_DEGREES; i++) {
    printf("%4d", train_zero_degrees[i]);
    for (int size = 0; size < TRAIN_ZERO_SIZES; size++) print_stages(size, train_zero_degrees[i]);
    printf("\n");
  }
}

static void print_models(void) {
  printf(
      "Largest model on devices of %g GB (Rajbhandari et al. 2020, Table 2, left): MP ranks "
      "divide\n"
      "each of %d data-parallel copies; model states as in Table 1\n\n%4s %5s",
      TRAIN_ZERO_TABLE2_MEMORY, TRAIN_ZERO_TABLE2_RANKS, "MP", "GPUs");
  for (int stage = 0; stage < TRAIN_ZERO_STAGES; stage++) printf(" %8s", stage_names[stage]);
  printf("\n");
  for (int i = 0; i < TRAIN_ZERO_SPLITS; i++) {
    int split = train_zero_splits[i];
    printf("%4d %5d", split, split * TRAIN_ZERO_TABLE2_RANKS);
    for (int stage = 0; stage < TRAIN_ZERO_STAGES; stage++) {
      char text[TRAIN_ZERO_TEXT];
      train_zero_model_text(stage, split, text);
      printf(" %8s", text);
    }
    printf("\n");
  }
}

void gpt_plan_zero_table(int table) {
  if (table == 1) print_memory();
  if (table == 2) print_models();
}
