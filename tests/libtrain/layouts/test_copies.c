/*
 * Weights that several ranks hold have the same bits on all of them after the steps: of tensors
 * that all tensor ranks hold, and of the token table, which first and last stage hold. Stages have
 * parts of different sizes, so that their data ranks add gradients in different orders. Tensor
 * ranks have units of the same size, also where they do not divide the vocabulary.
 */
#include <criterion/criterion.h>

#include "libtrain/layouts/job.h"

#define STEPS 8

static void check(layout_trial_t trial) {
  trial.compare_copies = true;
  trial.steps = STEPS;
  layout_outcome_t outcome = layout_train(&trial);
  layout_outcome_free(&outcome);
}

#define CHECK(...) check((layout_trial_t){__VA_ARGS__})

/* Of 61 tokens the tensor ranks hold 31 and 30. */
Test(layout_copies, tensor_ranks_round_stochastically_alike) {
  CHECK(.tp = 2, .precision = TRAIN_PRECISION_BF16_PURE);
  CHECK(.tp = 4, .sequence_parallel = true, .precision = TRAIN_PRECISION_BF16_PURE);
  CHECK(.tp = 2, .dp = 2, .zero = 1, .precision = TRAIN_PRECISION_BF16_PURE, .micro_batches = 2);
}

Test(layout_copies, tensor_ranks) {
  CHECK(.tp = 2, .dp = 2, .micro_batches = 2);
  CHECK(.tp = 2, .dp = 2, .zero = 2, .sequence_parallel = true, .precision = TRAIN_PRECISION_BF16);
  CHECK(.tp = 2, .cp = 2, .rings = true);
}

/* A ring of three ranks or more adds in an order that depends on the place in a bucket. */
Test(layout_copies, tensor_ranks_on_rings) {
  CHECK(.tp = 2, .dp = 3, .zero = 1, .rings = true);
  CHECK(.tp = 2, .dp = 3, .zero = 1, .rings = true, .bfloat16_wire = true);
  CHECK(.tp = 2, .dp = 3, .zero = 2, .rings = true);
  CHECK(.tp = 2, .dp = 4, .rings = true, .micro_batches = 2);
}

/* A batch of 15 sequences on 3 data ranks. */
static void check_stages(layout_trial_t trial) {
  trial.pp = 2;
  trial.schedule = TRAIN_SCHEDULE_1F1B;
  for (trial.dp = 3; trial.dp <= 4; trial.dp++) {
    trial.micro_batches = trial.dp == 3 ? 5 : 4;
    for (trial.zero = 0; trial.zero <= 1; trial.zero++) check(trial);
  }
}

Test(layout_copies, first_and_last_stage) {
  check_stages((layout_trial_t){0});
  check_stages((layout_trial_t){.rings = true});
}

Test(layout_copies, first_and_last_stage_with_narrow_gradients) {
  check_stages((layout_trial_t){.bfloat16_wire = true});
  check_stages((layout_trial_t){.bfloat16_wire = true, .rings = true});
}

Test(layout_copies, first_and_last_stage_in_mixed_precision) {
  check_stages((layout_trial_t){.precision = TRAIN_PRECISION_BF16, .rings = true});
  check_stages((layout_trial_t){.precision = TRAIN_PRECISION_BF16_PURE, .rings = true});
}
