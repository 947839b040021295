/* Models that a mesh cannot divide are refused with the nearest values that fit. */
#include <criterion/criterion.h>
#include <string.h>

#include "libtrain/mesh/fit.h"

static const train_model_config_t gpt2 = {
    .vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768};

static coll_status_t fit(int tp, int cp, int pp, int ep, const train_model_config_t *config,
                         const train_mesh_demands_t *demands) {
  train_mesh_shape_t shape;
  const train_mesh_options_t options = {.size = {tp, cp, ep, pp}, .ep = ep};
  cr_assert_eq(train_mesh_shape_init(&options, tp * cp * pp * ep, &shape), COLL_OK);
  return train_mesh_fit(&shape, config, demands);
}

static void expect(coll_status_t status, const char *text) {
  cr_assert_eq(status, COLL_ERROR_INVALID, "%s", text);
  cr_assert(strstr(base_last_error(), text) != NULL, "'%s' is not in: %s", text, base_last_error());
}

static const train_mesh_demands_t plain = {0};

Test(mesh_fit, what_can_be_divided_fits) {
  cr_assert_eq(fit(1, 1, 1, 1, &gpt2, &plain), COLL_OK);
  cr_assert_eq(fit(4, 8, 6, 1, &gpt2, &plain), COLL_OK);
  cr_assert_eq(fit(12, 1, 12, 1, &gpt2, &plain), COLL_OK);
  cr_assert_eq(
      fit(2, 2, 4, 4, &gpt2,
          &(train_mesh_demands_t){
              .virtual_stages = 3, .micro_batches = 8, .experts = 8, .sequence_parallel = true}),
      COLL_OK);
}

Test(mesh_fit, uneven_heads_are_refused) {
  expect(fit(8, 1, 1, 1, &gpt2, &plain),
         "--tp 8 does not divide the 12 attention heads: the nearest that does is --tp 6, or "
         "--heads 8");
  expect(fit(16, 1, 1, 1, &gpt2, &plain), "--tp 12, or --heads 16");
}

/* A model from a file has the sizes that it has. */
Test(mesh_fit, refusals_name_no_other_sizes_of_a_fixed_model) {
  const train_mesh_demands_t fixed = {.model_is_fixed = true};
  const train_mesh_demands_t ulysses = {.model_is_fixed = true, .ulysses = true};
  train_model_config_t config = gpt2;
  expect(fit(8, 1, 1, 1, &gpt2, &fixed), "the nearest that does is --tp 6");
  config.context = 1020;
  expect(fit(1, 4, 1, 1, &config, &fixed), "no multiple of 8: the nearest that fits is --cp 3");
  expect(fit(1, 8, 1, 1, &config, &ulysses), "the nearest that does is --cp 6");
  expect(fit(1, 1, 1, 4, &gpt2, &fixed), "the model has no experts: leave out --ep");
  for (int tp = 2; tp <= 16; tp++) {
    coll_status_t status = fit(tp, 1, 1, 1, &gpt2, &fixed);
    cr_expect(status == COLL_OK || strstr(base_last_error(), "--heads") == NULL, "--tp %d", tp);
  }
}

Test(mesh_fit, a_small_vocabulary_is_refused) {
  train_model_config_t config = gpt2;
  config.vocabulary = 3;
  expect(fit(4, 1, 1, 1, &config, &plain), "a vocabulary of 3 tokens: give at most --tp 3");
}

Test(mesh_fit, context_must_be_cut_evenly) {
  train_model_config_t config = gpt2;
  config.context = 1020;
  cr_assert_eq(fit(1, 2, 1, 1, &config, &plain), COLL_OK);
  expect(fit(1, 4, 1, 1, &config, &plain),
         "no multiple of 8: the nearest that is is --context 1016");
  config.context = 5;
  expect(fit(1, 4, 1, 1, &config, &plain), "--context 8");
  cr_assert_eq(fit(1, 1, 1, 1, &config, &plain), COLL_OK);
}

Test(mesh_fit, ulysses_divides_heads) {
  const train_mesh_demands_t ulysses = {.ulysses = true};
  train_model_config_t config = gpt2;
  cr_assert_eq(fit(3, 4, 1, 1, &config, &ulysses), COLL_OK);
  expect(fit(2, 4, 1, 1, &config, &ulysses),
         "Ulysses divides the 6 attention heads of a rank over --cp 4: the nearest that divides "
         "them is --cp 3");
  config.context = 1022;
  expect(fit(1, 4, 1, 1, &config, &ulysses), "--context 1020");
}

Test(mesh_fit, sequence_parallelism_divides_tokens) {
  const train_mesh_demands_t sequence = {.sequence_parallel = true};
  train_model_config_t config = gpt2;
  config.context = 20;
  cr_assert_eq(fit(2, 2, 1, 1, &config, &sequence), COLL_OK);
  expect(fit(4, 2, 1, 1, &config, &sequence), "the 10 tokens of a sequence on a rank over --tp 4");
}

Test(mesh_fit, stages_need_layers) {
  expect(fit(1, 1, 16, 1, &gpt2, &plain),
         "12 layers are less than the 16 stages of --pp 16: give at most --pp 12");
  expect(fit(1, 1, 4, 1, &gpt2, &(train_mesh_demands_t){.virtual_stages = 4, .micro_batches = 4}),
         "the 16 stages of --pp 4 with virtual stages: give at most --pp 3");
}

Test(mesh_fit, given_layers_of_stages_are_those_of_the_model) {
  const int ends[] = {0, 12, 0}, inner[] = {6, 0, 6}, more[] = {4, 4, 5}, one[] = {12};
  train_mesh_demands_t demands = {.blocks = ends, .block_ranges = 3};
  cr_assert_eq(fit(1, 1, 3, 1, &gpt2, &demands), COLL_OK, "%s", base_last_error());
  expect(fit(1, 1, 2, 1, &gpt2, &demands),
         "--partition gives the layers of 3 stages, but --pp 2 has 2");
  demands.blocks = inner;
  expect(fit(1, 1, 3, 1, &gpt2, &demands), "--partition gives stage 1 of 0 to 2 no layers");
  demands.blocks = more;
  expect(fit(1, 1, 3, 1, &gpt2, &demands),
         "gives the stages 13 layers, but the model has 12: give numbers whose sum is 12");
  demands = (train_mesh_demands_t){.blocks = one, .block_ranges = 1};
  cr_assert_eq(fit(1, 1, 1, 1, &gpt2, &demands), COLL_OK, "%s", base_last_error());
  const int eight[] = {0, 2, 2, 2, 2, 2, 2, 0};
  demands = (train_mesh_demands_t){
      .blocks = eight, .block_ranges = 8, .virtual_stages = 2, .micro_batches = 4};
  cr_assert_eq(fit(1, 1, 4, 1, &gpt2, &demands), COLL_OK, "%s", base_last_error());
  expect(fit(1, 1, 8, 1, &gpt2, &demands), "but --pp 8 with virtual stages has 16");
}

/* An embedding and a head may have stages of their own: 14 stages of 12 layers. */
Test(mesh_fit, given_layers_allow_two_stages_more_than_layers) {
  const int blocks[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  const train_mesh_demands_t demands = {.blocks = blocks, .block_ranges = 14};
  cr_assert_eq(fit(1, 1, 14, 1, &gpt2, &demands), COLL_OK, "%s", base_last_error());
}

Test(mesh_fit, virtual_stages_need_groups_of_micro_batches) {
  train_mesh_demands_t demands = {.virtual_stages = 2, .micro_batches = 6};
  expect(fit(1, 1, 4, 1, &gpt2, &demands),
         "--accumulate is 6: the nearest that fits is "
         "--accumulate 4");
  expect(fit(1, 1, 1, 1, &gpt2, &demands), "--virtual-stages 2 needs a pipeline");
  demands.micro_batches = 0;
  cr_assert_eq(fit(1, 1, 4, 1, &gpt2, &demands), COLL_OK);
}

Test(mesh_fit, experts_are_cut_evenly) {
  expect(fit(1, 1, 1, 2, &gpt2, &plain), "the model has no experts; give --experts 2");
  expect(fit(1, 1, 1, 4, &gpt2, &(train_mesh_demands_t){.experts = 6}),
         "--ep 4 does not divide --experts 6: the nearest that does is --ep 3");
}

Test(mesh_fit, whole_experts_need_experts) {
  train_mesh_shape_t shape;
  const train_mesh_options_t options = {.size = {2, 1, 1, 1}, .etp = 1};
  cr_assert_eq(train_mesh_shape_init(&options, 2, &shape), COLL_OK);
  expect(train_mesh_fit(&shape, &gpt2, &plain),
         "--etp 1: the model has no experts; give --experts 2, or leave out --etp");
  cr_assert_eq(train_mesh_fit(&shape, &gpt2, &(train_mesh_demands_t){.experts = 3}), COLL_OK);
}
