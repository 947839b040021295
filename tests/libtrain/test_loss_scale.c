/* Dynamic loss scaling: when the scale changes. */
#include <criterion/criterion.h>

#include "libtrain/loss_scale.h"

static void repeat(train_loss_scale_t *loss_scale, bool finite, int steps) {
  for (int i = 0; i < steps; i++) train_loss_scale_update(loss_scale, finite);
}

static void check(const train_loss_scale_t *loss_scale, double scale, uint64_t good_steps) {
  cr_assert_eq(loss_scale->scale, scale, "%g", loss_scale->scale);
  cr_assert_eq(loss_scale->good_steps, good_steps, "%d", (int)loss_scale->good_steps);
}

Test(loss_scale, doubles_after_enough_good_steps) {
  train_loss_scale_t loss_scale = TRAIN_LOSS_SCALE_INIT;
  check(&loss_scale, 65536, 0);
  repeat(&loss_scale, true, TRAIN_LOSS_SCALE_GOOD_STEPS - 1);
  check(&loss_scale, 65536, TRAIN_LOSS_SCALE_GOOD_STEPS - 1);
  train_loss_scale_update(&loss_scale, true);
  check(&loss_scale, 131072, 0);
  repeat(&loss_scale, true, TRAIN_LOSS_SCALE_GOOD_STEPS);
  check(&loss_scale, 262144, 0);
}

Test(loss_scale, halves_after_each_bad_step_and_counts_good_steps_from_0) {
  train_loss_scale_t loss_scale = TRAIN_LOSS_SCALE_INIT;
  repeat(&loss_scale, true, TRAIN_LOSS_SCALE_GOOD_STEPS - 1);
  train_loss_scale_update(&loss_scale, false);
  check(&loss_scale, 32768, 0);
  train_loss_scale_update(&loss_scale, false);
  check(&loss_scale, 16384, 0);
  repeat(&loss_scale, true, TRAIN_LOSS_SCALE_GOOD_STEPS - 1);
  check(&loss_scale, 16384, TRAIN_LOSS_SCALE_GOOD_STEPS - 1);
}

Test(loss_scale, stays_between_its_limits) {
  train_loss_scale_t loss_scale = TRAIN_LOSS_SCALE_INIT;
  repeat(&loss_scale, false, 16);
  check(&loss_scale, TRAIN_LOSS_SCALE_MIN, 0);
  repeat(&loss_scale, false, 3);
  check(&loss_scale, TRAIN_LOSS_SCALE_MIN, 0);
  repeat(&loss_scale, true, 24 * TRAIN_LOSS_SCALE_GOOD_STEPS);
  check(&loss_scale, TRAIN_LOSS_SCALE_MAX, 0);
  repeat(&loss_scale, true, TRAIN_LOSS_SCALE_GOOD_STEPS);
  check(&loss_scale, TRAIN_LOSS_SCALE_MAX, 0);
}
