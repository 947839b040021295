/* A checkpoint of any layout is resumed in any other. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/folder.h"
#include "libtrain/layouts/job.h"

#define STEPS 3 /* before the checkpoint */

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(layout_checkpoints, .init = setup, .fini = teardown);

static const layout_trial_t layouts[] = {
    {.micro_batches = 2},
    {.dp = 2, .zero = 3},
    {.cp = 2, .tp = 2},
    {.tp = 4, .sequence_parallel = true, .micro_batches = 4},
    {.dp = 2, .tp = 2, .zero = 2},
    {.dp = 2, .tp = 4, .zero = 3, .sequence_parallel = true},
    {.pp = 2, .micro_batches = 4},
    {.dp = 2, .tp = 2, .pp = 2, .micro_batches = 2},
};

static const train_model_config_t experts = {.vocabulary = 61,
                                             .context = 32,
                                             .layers = 4,
                                             .heads = 4,
                                             .width = 64,
                                             .experts = 4,
                                             .top_k = 2,
                                             .moe_every = 2,
                                             .shared_expert = 1};

static const layout_trial_t expert_layouts[] = {
    {.config = &experts},
    {.config = &experts, .dp = 4, .ep = 2, .zero = 3},
    {.config = &experts, .dp = 4, .ep = 4, .micro_batches = 2},
    {.config = &experts, .dp = 2, .tp = 2, .ep = 2, .zero = 1},
};

static void check_same(const char *path, const char *expected, const char *text) {
  size_t counts[2];
  char *bytes[2] = {folder_read(path, &counts[0]), folder_read(expected, &counts[1])};
  cr_assert(counts[0] == counts[1] && memcmp(bytes[0], bytes[1], counts[0]) == 0, "%s", text);
  free(bytes[0]);
  free(bytes[1]);
}

/* Takes the next step. */
static layout_outcome_t take_next(const layout_trial_t *layout, const char *from, const char *again,
                                  const layout_routing_t *replay) {
  layout_trial_t trial = *layout;
  trial.resume = from;
  trial.again = again;
  trial.replay = replay;
  trial.steps = 1;
  return layout_train(&trial);
}

/* The loss of the next step. */
static double resume(const layout_trial_t *layout, const char *from, const char *again,
                     const layout_routing_t *replay) {
  layout_outcome_t outcome = take_next(layout, from, again, replay);
  double loss = outcome.losses[STEPS];
  layout_outcome_free(&outcome);
  return loss;
}

static void check_pair(const layout_trial_t *from, const layout_trial_t *to, const char *saved,
                       const layout_outcome_t *next) {
  char text[400], from_text[200], to_text[200];
  snprintf(text, sizeof text, "%s resumed as %s", layout_trial_text(from, from_text),
           layout_trial_text(to, to_text));
  const char *again = folder_path(&folder, "again");
  double loss = resume(to, saved, again, next->routing), expected = next->losses[STEPS];
  check_same(again, saved, text);
  cr_assert(fabs(loss - expected) <= 1e-6 * expected, "%s: loss %.9f, not %.9f", text, loss,
            expected);
}

static void check_all(const layout_trial_t *trials, size_t count) {
  const char *saved = folder_path(&folder, "saved");
  unsigned number = 0;
  for (size_t from = 0; from < count; from++) {
    layout_trial_t trial = trials[from];
    trial.save = saved;
    trial.steps = STEPS;
    layout_outcome_t outcome = layout_train(&trial);
    layout_outcome_free(&outcome);
    layout_outcome_t next = take_next(&trials[from], saved, NULL, NULL);
    for (size_t to = 0; to < count; to++) {
      if (!harness_takes(HARNESS_VALUES, number++)) continue;
      check_pair(&trials[from], &trials[to], saved, &next);
    }
    layout_outcome_free(&next);
  }
}

Test(layout_checkpoints, are_resumed_in_every_other_layout) {
  check_all(layouts, sizeof layouts / sizeof layouts[0]);
}

Test(layout_checkpoints, of_models_with_experts_are_resumed_in_every_other_layout) {
  check_all(expert_layouts, sizeof expert_layouts / sizeof expert_layouts[0]);
}

/* Only the placement of whole tensors differs, and the order in which the tokens' losses, which are
 * float32, are added in float64. */
Test(layout_checkpoints, are_resumed_bit_for_bit_by_other_stages) {
  static const layout_trial_t stages[] = {{.micro_batches = 4},
                                          {.pp = 2, .micro_batches = 4},
                                          {.pp = 4, .micro_batches = 4},
                                          {.dp = 2, .pp = 2, .zero = 1, .micro_batches = 2},
                                          {.dp = 2, .zero = 1, .micro_batches = 2},
                                          {.dp = 2, .zero = 3, .micro_batches = 2}};
  const char *saved = folder_path(&folder, "saved");
  layout_trial_t first = {.micro_batches = 4, .steps = STEPS, .save = saved};
  layout_outcome_t outcome = layout_train(&first);
  layout_outcome_free(&outcome);
  float expected = (float)resume(&stages[0], saved, NULL, NULL);
  for (size_t i = 1; i < sizeof stages / sizeof stages[0]; i++) {
    char text[200];
    float loss = (float)resume(&stages[i], saved, NULL, NULL);
    cr_assert_eq(loss, expected, "%s: loss %.9g, not %.9g", layout_trial_text(&stages[i], text),
                 (double)loss, (double)expected);
  }
}
