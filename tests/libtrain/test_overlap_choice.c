/* The choice of --tp-overlap auto: which step has which candidate, and which candidate remains. */
#include <criterion/criterion.h>

#include "libtrain/overlap_choice.h"

#define STEPS 40

/* Steps as a run takes them on the rank that decides. Returns the candidate of the last one. */
static int run(const double ms[TRAIN_OVERLAP_CANDIDATES], int counts[TRAIN_OVERLAP_CANDIDATES]) {
  train_overlap_choice_t choice = {0};
  int candidate = 0, decided = 0;
  for (uint64_t step = 0; step < STEPS; step++) {
    candidate = train_overlap_of_step(&choice, step);
    choice.chosen = train_overlap_best(&choice);
    if (!decided) counts[candidate]++;
    decided += train_overlap_decides(step);
    if (decided) continue;
    /* The first time that a candidate has its turn is slow, and so is a disturbed step. */
    bool slow = counts[candidate] == 1 || step % 7 == 0;
    train_overlap_add(&choice, step, slow ? 1000 : ms[candidate]);
  }
  cr_assert_eq(decided, 1);
  return candidate;
}

static int best_of(double off, double first, double second, double third) {
  const double ms[TRAIN_OVERLAP_CANDIDATES] = {off, first, second, third};
  int counts[TRAIN_OVERLAP_CANDIDATES] = {0};
  int best = run(ms, counts);
  for (int i = 1; i < TRAIN_OVERLAP_CANDIDATES; i++) {
    cr_assert_eq(counts[i], TRAIN_OVERLAP_TRIES + 1, "candidate %d has %d steps", i, counts[i]);
  }
  return best;
}

Test(overlap_choice, the_fastest_remains) {
  cr_assert_eq(best_of(100, 90, 80, 85), 2);
  cr_assert_eq(best_of(100, 90, 95, 85), 3);
  cr_assert_eq(best_of(100, 97, 120, 110), 1);
}

Test(overlap_choice, small_gains_are_noise) {
  cr_assert_eq(best_of(100, 101, 102, 103), 0);
  cr_assert_eq(best_of(100, 99, 98.5, 99), 0);
}

Test(overlap_choice, candidates_begin_without_overlap) {
  cr_assert_eq(train_overlap_candidates[0], 0);
  for (int i = 1; i < TRAIN_OVERLAP_CANDIDATES; i++) {
    cr_assert_gt(train_overlap_candidates[i], train_overlap_candidates[i - 1]);
  }
}

/* A run that ends before the choice keeps what it has. */
Test(overlap_choice, first_steps_do_not_overlap) {
  const train_overlap_choice_t choice = {.chosen = 2};
  cr_assert_eq(train_overlap_of_step(&choice, 0), 0);
  cr_assert_eq(train_overlap_of_step(&choice, 1), 0);
}
