/* Dynamic loss scaling: when the scale changes, and how checkpoints store it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/files/metadata.h"
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

static const train_metadata_t sample = {
    .config = {.vocabulary = 256, .context = 8, .layers = 1, .heads = 1, .width = 8},
    .position = {.step = 9, .skipped = 2}};

static train_metadata_t saved_and_read(const train_metadata_t *metadata) {
  char *text;
  train_metadata_t read;
  cr_assert_eq(train_metadata_to_json(metadata, &text), COLL_OK, "%s", base_last_error());
  cr_assert_eq(train_metadata_from_json(text, strlen(text), &read), COLL_OK, "%s",
               base_last_error());
  free(text);
  return read;
}

Test(loss_scale, is_saved_in_metadata) {
  train_metadata_t metadata = sample;
  train_metadata_t read = saved_and_read(&metadata);
  check(&read.loss_scale, 0, 0);
  cr_assert_eq(read.position.skipped, 2);
  metadata.loss_scale = (train_loss_scale_t){TRAIN_LOSS_SCALE_MAX, 1999};
  read = saved_and_read(&metadata);
  check(&read.loss_scale, TRAIN_LOSS_SCALE_MAX, 1999);
}

/* The status of reading metadata with these members of the position and of the root. */
static coll_status_t read_with(const char *position, const char *root, train_metadata_t *read) {
  char text[512];
  int count = snprintf(text, sizeof text,
                       "{\"model\": {\"vocabulary\": 256, \"context\": 8, \"layers\": 1, "
                       "\"heads\": 1, \"width\": 8}, \"position\": {%s\"step\": 9, "
                       "\"micro_steps\": 9, \"tokens\": 72, \"sequences\": 9, \"seed\": 1}, "
                       "%s\"moments\": true, \"settings\": {}}",
                       position, root);
  return train_metadata_from_json(text, (size_t)count, read);
}

Test(loss_scale, is_optional_in_older_files) {
  train_metadata_t read;
  cr_assert_eq(read_with("", "", &read), COLL_OK, "%s", base_last_error());
  check(&read.loss_scale, 0, 0);
  cr_assert_eq(read.position.skipped, 0);
  cr_assert_eq(read_with("\"skipped\": 9, ", "\"loss_scale\": 4.0, \"good_steps\": 7, ", &read),
               COLL_OK, "%s", base_last_error());
  check(&read.loss_scale, 4, 7);
  cr_assert_eq(read.position.skipped, 9);
}

Test(loss_scale, rejects_values_that_no_run_saves) {
  static const char *const roots[] = {"\"loss_scale\": 3.0, \"good_steps\": 0, ",
                                      "\"loss_scale\": 0.5, \"good_steps\": 0, ",
                                      "\"loss_scale\": -4.0, \"good_steps\": 0, ",
                                      "\"loss_scale\": 1e30, \"good_steps\": 0, ",
                                      "\"loss_scale\": \"4\", \"good_steps\": 0, ",
                                      "\"loss_scale\": 4.0, \"good_steps\": -1, ",
                                      "\"good_steps\": 5, "};
  train_metadata_t read;
  for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
    cr_assert_eq(read_with("", roots[i], &read), COLL_ERROR_INVALID, "%s", roots[i]);
  }
  cr_assert_eq(read_with("\"skipped\": 10, ", "", &read), COLL_ERROR_INVALID);
  cr_assert_eq(read_with("\"skipped\": -1, ", "", &read), COLL_ERROR_INVALID);
}
