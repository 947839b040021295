/*
 * Naive data parallelism, where rank 0 alone updates: the same losses, gradients and weights as one
 * rank; bytes by the formula; the same checkpoints.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/folder.h"
#include "libtrain/layouts/compare.h"
#include "libtrain/parallel/memory.h"

Test(layout_naive, trains_like_one_rank) {
  const layout_trial_t trials[] = {{.dp = 1, .naive = true},
                                   {.dp = 2, .naive = true, .micro_batches = 2},
                                   {.dp = 4, .naive = true},
                                   {.dp = 4, .naive = true, .micro_batches = 4}};
  layout_outcome_t expected = layout_train(&(layout_trial_t){0});
  for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
    layout_outcome_t got = layout_train(&trials[i]);
    layout_compare(&trials[i], &got, &expected);
    layout_outcome_free(&got);
  }
  layout_outcome_free(&expected);
}

static void check_traffic(int ranks, train_precision_t precision) {
  const layout_trial_t trial = {.dp = ranks,
                                .naive = true,
                                .micro_batches = 2,
                                .precision = precision,
                                .rings = true,
                                .steps = 2};
  const train_store_options_t options = {.naive = true, .precision = precision};
  layout_outcome_t outcome = layout_train(&trial);
  uint64_t of_rank = train_traffic_predict(outcome.layout, &options, ranks, 2);
  uint64_t all = (uint64_t)ranks, axis = TRAIN_TRAFFIC_DATA;
  cr_expect_eq(outcome.counted[axis], all * of_rank);
  cr_expect_eq(outcome.wired[axis], (all - 1) * of_rank, "%d ranks: %llu bytes", ranks,
               (unsigned long long)outcome.wired[axis]);
  layout_outcome_free(&outcome);
}

Test(layout_naive, sends_each_gradient_and_each_weight_once) {
  check_traffic(2, TRAIN_PRECISION_FLOAT32);
  check_traffic(4, TRAIN_PRECISION_FLOAT32);
  check_traffic(4, TRAIN_PRECISION_BF16);
}

/* ---- checkpoints ---- */

static char *read_saved(const layout_trial_t *trial, size_t *bytes) {
  layout_outcome_t outcome = layout_train(trial);
  layout_outcome_free(&outcome);
  return folder_read(trial->again != NULL ? trial->again : trial->save, bytes);
}

/* What one layout saves, the other loads and saves again to the same bytes. */
static void check_saved_again(layout_trial_t from, layout_trial_t to) {
  folder_t folder;
  size_t counts[2];
  folder_make(&folder);
  from.steps = to.steps = 2;
  from.save = to.resume = folder_path(&folder, "saved");
  to.again = folder_path(&folder, "again");
  char *saved = read_saved(&from, &counts[0]), *again = read_saved(&to, &counts[1]);
  cr_expect(counts[0] == counts[1] && memcmp(saved, again, counts[0]) == 0);
  free(again);
  free(saved);
  folder_remove(&folder);
}

Test(layout_naive, checkpoints_are_those_of_other_layouts) {
  for (int i = 0; i < 2; i++) {
    train_precision_t precision = i == 0 ? TRAIN_PRECISION_FLOAT32 : TRAIN_PRECISION_BF16;
    const layout_trial_t naive = {.dp = 2, .naive = true, .precision = precision},
                         other = {.tp = 2, .precision = precision};
    check_saved_again(naive, other);
    check_saved_again(other, naive);
  }
}
