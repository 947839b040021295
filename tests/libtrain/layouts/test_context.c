/* What context ranks send and how much memory they need, and narrow precisions among them. */
#include <criterion/criterion.h>

#include "libtrain/layouts/job.h"
#include "libtrain/model/model.h"
#include "libtrain/norms.h"

/* ---- bytes ---- */

/* That a rank sends in a pass of one block, by the formulas of model/context.h. */
static uint64_t ring_bytes(uint64_t ranks, uint64_t rows, uint64_t features, bool again) {
  return (ranks - 1) * 2 * rows * features * (4 + 8 + (again ? 4 : 0));
}

static uint64_t ulysses_bytes(uint64_t ranks, uint64_t rows, uint64_t features, bool again) {
  return (ranks - 1) * 4 * rows * features * (again ? 3 : 2) * 4 / ranks;
}

static void check_bytes(layout_trial_t trial) {
  char text[200];
  trial.steps = 2;
  layout_outcome_t outcome = layout_train(&trial);
  uint64_t ranks = (uint64_t)trial.cp, tensor = trial.tp > 0 ? (uint64_t)trial.tp : 1;
  uint64_t rows = LAYOUT_BATCH * (uint64_t)layout_config.context / ranks; /* of a step */
  uint64_t features = (uint64_t)layout_config.width / tensor;
  bool again = trial.recompute != TRAIN_RECOMPUTE_NONE;
  uint64_t bytes = trial.context_kind == TRAIN_CONTEXT_RING
                       ? ring_bytes(ranks, rows, features, again)
                       : ulysses_bytes(ranks, rows, features, again);
  cr_assert_eq(outcome.context_bytes, (uint64_t)layout_config.layers * bytes, "%s",
               layout_trial_text(&trial, text));
  layout_outcome_free(&outcome);
}

Test(layout_context, bytes_are_those_of_the_formulas) {
  for (int kind = 0; kind <= TRAIN_CONTEXT_ULYSSES; kind++) {
    const train_context_kind_t context = (train_context_kind_t)kind;
    check_bytes((layout_trial_t){.cp = 2, .context_kind = context});
    check_bytes((layout_trial_t){.cp = 4, .context_kind = context, .micro_batches = 2});
    check_bytes((layout_trial_t){
        .cp = 2, .tp = 2, .context_kind = context, .recompute = TRAIN_RECOMPUTE_BLOCK});
  }
}

/* ---- memory ---- */

static size_t bytes_of(const train_layout_t *layout, int ranks, int kind,
                       train_recompute_t recompute) {
  train_axis_t context = {.group.size = ranks};
  const train_model_options_t options = {
      .sequences = 1,
      .axes = {.context = &context, .context_kind = (train_context_kind_t)kind},
      .recompute = recompute};
  return train_model_bytes(layout, &options);
}

/* Besides the activations of positions, there is scratch memory of operators, and buffers. */
Test(layout_context, memory_falls_with_the_ranks) {
  const train_model_config_t deep = {
      .vocabulary = 50257, .context = 8192, .layers = 48, .heads = 12, .width = 768};
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&deep, &layout), COLL_OK);
  for (int kind = 0; kind <= TRAIN_CONTEXT_ULYSSES; kind++) {
    size_t whole = bytes_of(layout, 1, kind, TRAIN_RECOMPUTE_NONE);
    size_t least = bytes_of(layout, 1, kind, TRAIN_RECOMPUTE_BLOCK);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
      size_t part = bytes_of(layout, ranks, kind, TRAIN_RECOMPUTE_NONE);
      cr_expect_lt((double)part * ranks, 1.1 * (double)whole, "%d ranks: %zu of %zu bytes", ranks,
                   part, whole);
      part = bytes_of(layout, ranks, kind, TRAIN_RECOMPUTE_BLOCK);
      cr_expect_lt((double)part * ranks, 1.4 * (double)least, "%d ranks: %zu of %zu bytes", ranks,
                   part, least);
    }
  }
  train_layout_destroy(layout);
}

/* ---- precision ---- */

/* Of the gradients, relative to their norm in b. */
static double distance(const layout_outcome_t *a, const layout_outcome_t *b) {
  size_t count = b->layout->parameter_count;
  return norm_of_difference(a->gradients, b->gradients, count) / norm_of(b->gradients, count);
}

/* `exact` and `narrow` are of one rank. */
static void check_narrow(layout_trial_t trial, const layout_outcome_t *exact,
                         const layout_outcome_t *narrow) {
  char text[200];
  trial.precision = TRAIN_PRECISION_BF16;
  layout_outcome_t got = layout_train(&trial);
  layout_trial_text(&trial, text);
  double apart = distance(&got, exact), expected = distance(narrow, exact);
  cr_assert_leq(apart, 1.1 * expected, "%s: gradients are %g of their norm apart, not %g", text,
                apart, expected);
  for (int step = 0; step < layout_steps(); step++) {
    double loss = narrow->losses[step];
    cr_assert_float_eq(got.losses[step], loss, 0x1p-8 * loss, "%s: loss %g at step %d, not %g",
                       text, got.losses[step], step + 1, loss);
  }
  layout_outcome_free(&got);
}

Test(layout_context, bfloat16_is_as_exact_as_on_one_rank) {
  layout_outcome_t exact = layout_train(&(layout_trial_t){0});
  layout_outcome_t narrow = layout_train(&(layout_trial_t){.precision = TRAIN_PRECISION_BF16});
  check_narrow((layout_trial_t){.cp = 2}, &exact, &narrow);
  check_narrow((layout_trial_t){.cp = 4, .recompute = TRAIN_RECOMPUTE_BLOCK}, &exact, &narrow);
  check_narrow((layout_trial_t){.cp = 2, .context_kind = TRAIN_CONTEXT_ULYSSES}, &exact, &narrow);
  layout_outcome_free(&narrow);
  layout_outcome_free(&exact);
}
