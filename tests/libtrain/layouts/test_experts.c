/*
 * Models with experts beside those of the parity matrix (test_matrix.c): every layout routes alike,
 * and gives the losses, gradients and weights of one rank.
 */
#include <criterion/criterion.h>

#include "libtrain/layouts/compare.h"

static const train_model_config_t one_of_four = {.vocabulary = 61,
                                                 .context = 32,
                                                 .layers = 4,
                                                 .heads = 4,
                                                 .width = 64,
                                                 .experts = 4,
                                                 .top_k = 1,
                                                 .moe_every = 1};

#define CHECK(config, ...)                                                 \
  do {                                                                     \
    const layout_trial_t trials[] = {__VA_ARGS__};                         \
    layout_compare_all(&(config), trials, sizeof trials / sizeof *trials); \
  } while (0)

Test(experts, data) {
  CHECK(layout_two_of_eight, {.dp = 4, .zero = 3, .micro_batches = 2}, {.dp = 2, .ep = 2});
  CHECK(one_of_four, {.dp = 4}, {.dp = 2, .zero = 2, .micro_batches = 2}, {.dp = 4, .ep = 2},
        {.dp = 4, .ep = 2, .zero = 2, .micro_batches = 2});
}

Test(experts, tensor) {
  CHECK(layout_two_of_eight, {.tp = 2}, {.tp = 2, .sequence_parallel = true, .micro_batches = 2},
        {.dp = 2, .tp = 2, .ep = 2, .sequence_parallel = true, .zero = 3});
  CHECK(one_of_four, {.tp = 4, .sequence_parallel = true},
        {.tp = 2, .recompute = TRAIN_RECOMPUTE_BLOCK});
}

/* Experts that tensor ranks do not cut: each tensor rank applies them to its share of the rows, and
 * their gradients are summed over the tensor ranks, too. */
Test(experts, whole_on_tensor_ranks) {
  CHECK(layout_two_of_eight, {.tp = 2, .etp = 1},
        {.dp = 2, .tp = 2, .ep = 2, .etp = 1, .sequence_parallel = true, .zero = 3},
        {.tp = 2, .cp = 2, .ep = 2, .etp = 1, .zero = 1, .micro_batches = 2});
  CHECK(one_of_four, {.tp = 4, .etp = 1, .zero = 2, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {.dp = 2,
         .tp = 2,
         .pp = 2,
         .ep = 2,
         .etp = 1,
         .zero = 1,
         .micro_batches = 4,
         .sequence_parallel = true,
         .schedule = TRAIN_SCHEDULE_1F1B});
}

/* Capacity and losses are those of whole sequences. */
Test(experts, context) {
  CHECK(layout_two_of_eight, {.cp = 2},
        {.cp = 2, .dp = 2, .ep = 4, .zero = 1, .recompute = TRAIN_RECOMPUTE_BLOCK},
        {.cp = 4, .context_kind = TRAIN_CONTEXT_ULYSSES});
  CHECK(one_of_four, {.cp = 2, .ep = 2, .context_kind = TRAIN_CONTEXT_ULYSSES, .zero = 3},
        {.cp = 4, .ep = 2}, {.cp = 2, .pp = 2, .ep = 2, .micro_batches = 2});
}

Test(experts, pipeline) {
  CHECK(layout_two_of_eight, {.pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B});
  CHECK(one_of_four,
        {.dp = 2, .pp = 4, .ep = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B},
        {.dp = 2, .pp = 2, .ep = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_ZB_H1});
}

Test(experts, split_backward) {
  CHECK(layout_two_of_eight, {.pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_ZB_H1},
        {.tp = 2,
         .pp = 2,
         .micro_batches = 4,
         .sequence_parallel = true,
         .schedule = TRAIN_SCHEDULE_ZB_H1});
  CHECK(one_of_four, {.pp = 4, .micro_batches = 8, .schedule = TRAIN_SCHEDULE_ZB_H1},
        {.dp = 2,
         .tp = 2,
         .pp = 2,
         .ep = 2,
         .etp = 1,
         .zero = 1,
         .micro_batches = 4,
         .schedule = TRAIN_SCHEDULE_ZB_H1});
}
