/* Models whose classifier has weights of its own: in every layout, and against tied ones. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/layouts/compare.h"
#include "libtrain/model/param_provider.h"

static const train_model_config_t untied = {
    .vocabulary = 61, .context = 32, .layers = 4, .heads = 4, .width = 64, .untied = 1};

#define UNTIED(...) \
  { .config = &untied, __VA_ARGS__ }

Test(untied, layouts) {
  const layout_trial_t one = UNTIED(.micro_batches = 2);
  const layout_trial_t trials[] = {
      UNTIED(.dp = 2, .zero = 1, .micro_batches = 2),
      UNTIED(.dp = 2, .zero = 3, .micro_batches = 2),
      UNTIED(.tp = 4),
      UNTIED(.tp = 2, .sequence_parallel = true, .recompute = TRAIN_RECOMPUTE_BLOCK),
      UNTIED(.cp = 2, .dp = 2),
      UNTIED(.pp = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_1F1B),
      UNTIED(.pp = 4, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_ZB_H1),
      UNTIED(.pp = 2, .chunks = 2, .micro_batches = 4, .schedule = TRAIN_SCHEDULE_INTERLEAVED),
      UNTIED(.pp = 2, .tp = 2, .dp = 2, .zero = 1, .micro_batches = 2, .sequence_parallel = true,
             .schedule = TRAIN_SCHEDULE_1F1B)};
  layout_outcome_t expected = layout_train(&one);
  cr_assert(expected.losses[layout_steps() - 1] < 0.97 * expected.losses[0], "it does not learn");
  for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
    layout_outcome_t got = layout_train(&trials[i]);
    layout_compare(&trials[i], &got, &expected);
    layout_outcome_free(&got);
  }
  layout_outcome_free(&expected);
}

/* A model on one rank with its parameters and gradients. */
typedef struct net {
  train_layout_t *layout;
  train_model_t *model;
  train_arena_t arena;
} net_t;

static net_t create(const train_model_config_t *config) {
  const train_model_options_t options = {.sequences = 1};
  net_t net = {0};
  cr_assert_eq(train_layout_create(config, &net.layout), COLL_OK);
  cr_assert_eq(train_model_create(net.layout, &options, &net.model), COLL_OK);
  size_t count = net.layout->parameter_count;
  net.arena = (train_arena_t){.layout = net.layout,
                              .dtype = TRAIN_FLOAT32,
                              .parameters = malloc(count * sizeof(float)),
                              .gradients = malloc(count * sizeof(float))};
  train_layout_initialize(NULL, net.layout, 1, 0, count, net.arena.parameters);
  return net;
}

static void destroy(net_t *net) {
  free(net->arena.parameters);
  free(net->arena.gradients);
  train_model_destroy(net->model);
  train_layout_destroy(net->layout);
}

static double loss_and_gradients(net_t *net) {
  int32_t tokens[32], targets[32];
  double loss;
  for (int i = 0; i < 32; i++) {
    tokens[i] = i % 13;
    targets[i] = (i + 1) % 13;
  }
  const train_param_provider_t provider = train_arena_provider(&net->arena);
  train_arena_begin(&net->arena);
  cr_assert_eq(
      train_model_forward_backward(net->model, &provider, tokens, targets, 1, 32, 1, &loss),
      COLL_OK);
  return loss;
}

static float *tensor_of(const net_t *net, float *values, int which) {
  return values + train_layout_tensor(net->layout, 0, which)->offset;
}

/* With equal tables both models compute the same, and the gradient of the tied table is the sum. */
Test(untied, equal_tables_are_a_tied_one) {
  net_t tied = create(&layout_config), own = create(&untied);
  size_t table = (size_t)layout_config.vocabulary * (size_t)layout_config.width;
  size_t root = tied.layout->units[0].count, all = tied.layout->parameter_count;
  float *from = tied.arena.parameters, *to = own.arena.parameters;
  cr_assert_eq(own.layout->parameter_count, all + table);
  memcpy(to, from, root * sizeof *to);
  memcpy(tensor_of(&own, to, TRAIN_HEAD_WEIGHT), from, table * sizeof *to);
  memcpy(to + root + table, from + root, (all - root) * sizeof *to);
  cr_assert_eq(loss_and_gradients(&tied), loss_and_gradients(&own));
  const float *sum = tensor_of(&tied, tied.arena.gradients, TRAIN_TOKEN_TABLE);
  const float *looked_up = tensor_of(&own, own.arena.gradients, TRAIN_TOKEN_TABLE);
  const float *head = tensor_of(&own, own.arena.gradients, TRAIN_HEAD_WEIGHT);
  for (size_t i = 0; i < table; i++) {
    cr_assert_float_eq(sum[i], looked_up[i] + head[i], 1e-6f, "element %zu", i);
  }
  cr_assert_arr_eq(tied.arena.gradients + root, own.arena.gradients + root + table,
                   (all - root) * sizeof(float));
  destroy(&tied);
  destroy(&own);
}
