/*
 * What the parity matrix (test_matrix.c) leaves out: recomputation, steps of one micro-batch, ZeRO
 * over context ranks alone, and fewer micro-batches than stages.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "libtrain/layouts/compare.h"

#define CHECK(...)                                                      \
  do {                                                                  \
    const layout_trial_t trials[] = {__VA_ARGS__};                      \
    layout_compare_all(NULL, trials, sizeof trials / sizeof trials[0]); \
  } while (0)

#define ULYSSES .context_kind = TRAIN_CONTEXT_ULYSSES
#define SLICES .pp = 2, .schedule = TRAIN_SCHEDULE_TERAPIPE, .slices = {3, {14, 10, 8}}

Test(layouts, recompute) {
  CHECK({.tp = 2, .recompute = TRAIN_RECOMPUTE_ATTENTION},
        {.tp = 4, .sequence_parallel = true, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {.tp = 2, .dp = 2, .zero = 3, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {.pp = 2,
         .micro_batches = 4,
         .schedule = TRAIN_SCHEDULE_1F1B,
         .recompute = TRAIN_RECOMPUTE_BLOCK});
}

Test(layouts, recompute_with_context_ranks) {
  CHECK({.cp = 2, .micro_batches = 4, .recompute = TRAIN_RECOMPUTE_ATTENTION},
        {.cp = 4, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {.cp = 2, ULYSSES, .micro_batches = 4, .recompute = TRAIN_RECOMPUTE_ATTENTION},
        {.cp = 4, ULYSSES, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {.cp = 2, ULYSSES, .tp = 2, .sequence_parallel = true, .recompute = TRAIN_RECOMPUTE_BLOCK});
}

Test(layouts, recompute_with_slices) {
  CHECK({SLICES, .micro_batches = 2, .recompute = TRAIN_RECOMPUTE_ATTENTION},
        {SLICES, .micro_batches = 2, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {SLICES, .tp = 2, .sequence_parallel = true, .micro_batches = 2,
         .recompute = TRAIN_RECOMPUTE_BLOCK});
}

Test(layouts, one_micro_batch) {
  CHECK({.dp = 2}, {.dp = 4, .zero = 1}, {.tp = 2}, {.tp = 2, .sequence_parallel = true}, {.cp = 2},
        {.cp = 2, ULYSSES}, {SLICES});
}

Test(layouts, zero_over_context_ranks) {
  CHECK({.cp = 2, .tp = 2, .zero = 1},
        {.cp = 4, .tp = 2, .zero = 2, .sequence_parallel = true, .micro_batches = 2},
        {.cp = 2, ULYSSES, .tp = 2, .zero = 3});
}

Test(layouts, fewer_micro_batches_than_stages) {
  CHECK({.pp = 4, .micro_batches = 2},
        {.pp = 4, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_1F1B},
        {.pp = 4, .micro_batches = 2, .schedule = TRAIN_SCHEDULE_ZB_H1});
}

/* The first stage of four, which has as many micro-batches in flight with both schedules. */
static coll_status_t predict(train_schedule_kind_t kind, train_recompute_t recompute,
                             size_t *bytes) {
  const train_part_t part = {.tensor_ranks = 1, .chunk_count = 1, .chunks = {{0, 1}}};
  const train_ranks_t ranks = {.shares = 1, .stages = 4};
  const train_executor_options_t options = {
      .model = {.sequences = 2, .recompute = recompute}, .micro_batches = 8, .schedule = kind};
  train_model_config_t config = layout_config;
  train_layout_t *layout;
  config.width = config.context = 512; /* one array of a micro-batch is a huge page */
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_OK);
  coll_status_t status = train_executor_predict(layout, &ranks, &options, bytes);
  train_layout_destroy(layout);
  return status;
}

Test(layouts, zero_bubble_stores_only_gradients_of_layernorms) {
  size_t whole, split, huge_page = (size_t)2 << 20;
  cr_assert_eq(predict(TRAIN_SCHEDULE_1F1B, TRAIN_RECOMPUTE_NONE, &whole), COLL_OK);
  cr_assert_eq(predict(TRAIN_SCHEDULE_ZB_H1, TRAIN_RECOMPUTE_NONE, &split), COLL_OK);
  cr_assert(split >= whole && split - whole <= huge_page, "%zu bytes more", split - whole);
}

Test(layouts, zero_bubble_recomputes_nothing) {
  size_t bytes;
  cr_assert_eq(predict(TRAIN_SCHEDULE_ZB_H1, TRAIN_RECOMPUTE_BLOCK, &bytes), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "--recompute none") != NULL, "%s", base_last_error());
}

/* Slices of a sequence of 512 tokens on the first of four stages, of one micro-batch. */
static coll_status_t predict_slices(const train_slices_t *slices, int context_ranks,
                                    size_t *bytes) {
  const train_part_t part = {.tensor_ranks = 1, .chunk_count = 1, .chunks = {{0, 1}}};
  train_axis_t context = {.group.size = context_ranks};
  const train_ranks_t ranks = {.shares = 1, .stages = 4, .axes.context = &context};
  const train_executor_options_t options = {.model = {.sequences = 8, .slices = *slices},
                                            .micro_batches = 1,
                                            .schedule = TRAIN_SCHEDULE_TERAPIPE};
  train_model_config_t config = layout_config;
  train_layout_t *layout;
  config.width = config.context = 512;
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_OK);
  coll_status_t status = train_executor_predict(layout, &ranks, &options, bytes);
  train_layout_destroy(layout);
  return status;
}

/* A micro-batch is stored as without slices. What a pass has besides is a quarter: 8 C floats a row
 * of normed, d_stream, d_narrow, d_wide and the message. Sums for keys and values, and what a slice
 * of queries accumulates, are added. */
Test(layouts, slices_need_the_memory_of_the_longest_pass) {
  const train_slices_t whole = {0}, quarters = {4, {128, 128, 128, 128}};
  size_t of_whole, of_quarters, row = 512 * sizeof(float), rows = 8 * 512;
  cr_assert_eq(predict_slices(&whole, 1, &of_whole), COLL_OK);
  cr_assert_eq(predict_slices(&quarters, 1, &of_quarters), COLL_OK);
  size_t passes = 8 * rows * row, sums = 2 * rows * row, running = rows / 4 * (row + 8 * 4);
  double expected = (double)of_whole - (double)passes * 3 / 4 + (double)(sums + running);
  cr_expect_float_eq((double)of_quarters, expected, 0.01 * (double)of_whole, "%zu, %g", of_quarters,
                     expected);
}

Test(layouts, slices_that_do_not_fit_are_refused) {
  const train_slices_t halves = {2, {256, 256}}, few = {2, {256, 255}};
  size_t bytes;
  cr_assert_eq(predict_slices(&few, 1, &bytes), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "change the last one by +1") != NULL);
  cr_assert_eq(predict_slices(&halves, 2, &bytes), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "give --cp 1") != NULL);
}
