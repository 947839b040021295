/* The first step of a run measures kernels, the second one communication without overlap. */
#include "libtrain/overlap_choice.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_STEP 2
#define MEASURED_STEPS (TRAIN_OVERLAP_CANDIDATES * (TRAIN_OVERLAP_TRIES + 1))

const int train_overlap_candidates[TRAIN_OVERLAP_CANDIDATES] = {0, 1, 2, 4};

/* Of a measured step: which one it is. The first round selects kernels for the products of chunks
 * and is not kept. */
static bool is_measured(uint64_t step, int *turn) {
  if (step < FIRST_STEP || step >= FIRST_STEP + MEASURED_STEPS) return false;
  *turn = (int)(step - FIRST_STEP);
  return true;
}

int train_overlap_of_step(const train_overlap_choice_t *choice, uint64_t step) {
  int turn;
  if (is_measured(step, &turn)) return turn % TRAIN_OVERLAP_CANDIDATES;
  return step > FIRST_STEP + MEASURED_STEPS ? choice->chosen : 0;
}

void train_overlap_add(train_overlap_choice_t *choice, uint64_t step, double ms) {
  int turn;
  if (!is_measured(step, &turn) || turn < TRAIN_OVERLAP_CANDIDATES) return;
  choice->ms[turn % TRAIN_OVERLAP_CANDIDATES][turn / TRAIN_OVERLAP_CANDIDATES - 1] = ms;
}

bool train_overlap_decides(uint64_t step) {
  return step == FIRST_STEP + MEASURED_STEPS;
}

static int compare_ms(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return (first > second) - (first < second);
}

double train_overlap_ms(const train_overlap_choice_t *choice, int candidate) {
  double sorted[TRAIN_OVERLAP_TRIES];
  memcpy(sorted, choice->ms[candidate], sizeof sorted);
  qsort(sorted, TRAIN_OVERLAP_TRIES, sizeof sorted[0], compare_ms);
  return sorted[TRAIN_OVERLAP_TRIES / 2];
}

int train_overlap_best(const train_overlap_choice_t *choice) {
  int best = 0;
  for (int i = 1; i < TRAIN_OVERLAP_CANDIDATES; i++) {
    double limit = train_overlap_ms(choice, best) * (best == 0 ? 1 - TRAIN_OVERLAP_GAIN : 1);
    if (train_overlap_ms(choice, i) < limit) best = i;
  }
  return best;
}
