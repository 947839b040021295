/*
 * Models with experts: the gradient of each tensor against the change of the loss along it, on one
 * rank; the same bits with recomputation and threads; layouts of parts with some of the experts.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/model/model.h"
#include "libtrain/norms.h"
#include "reference.h"

#define SEQUENCES 3
#define LENGTH 12

static const train_model_config_t shared = {.vocabulary = 11,
                                            .context = LENGTH,
                                            .layers = 4,
                                            .heads = 2,
                                            .width = 16,
                                            .experts = 4,
                                            .top_k = 2,
                                            .moe_every = 2,
                                            .shared_expert = 1};
static const train_model_config_t all_blocks = {.vocabulary = 11,
                                                .context = LENGTH,
                                                .layers = 2,
                                                .heads = 2,
                                                .width = 16,
                                                .experts = 6,
                                                .top_k = 1,
                                                .moe_every = 1};

/* A model with its own parameters and gradients. */
typedef struct fixture {
  train_layout_t *layout;
  train_model_t *model;
  train_arena_t arena;
  train_param_provider_t provider;
  int32_t tokens[SEQUENCES * LENGTH], targets[SEQUENCES * LENGTH];
} fixture_t;

static void setup(const train_model_config_t *config, const train_model_options_t *chosen,
                  fixture_t *f) {
  train_model_options_t options = *chosen;
  options.sequences = SEQUENCES;
  options.experts = (train_experts_options_t){.capacity_factor = 1, .balance = 0.3f, .z = 0.1f};
  cr_assert_eq(train_layout_create(config, &f->layout), COLL_OK, "%s", base_last_error());
  cr_assert_eq(train_model_create(f->layout, &options, &f->model), COLL_OK);
  size_t count = f->layout->parameter_count;
  f->arena = (train_arena_t){.layout = f->layout,
                             .parameters = calloc(count, sizeof(float)),
                             .gradients = malloc(count * sizeof(float))};
  random_fill(1, 0.4, count, f->arena.parameters);
  memset(f->arena.gradients, 0xff, count * sizeof(float));
  f->provider = train_arena_provider(&f->arena);
  for (int i = 0; i < SEQUENCES * LENGTH; i++) {
    f->tokens[i] = (i * i + i / 5) % config->vocabulary;
    f->targets[i] = (i * 7 + i / 3) % config->vocabulary;
  }
}

static void teardown(fixture_t *f) {
  free(f->arena.parameters), free(f->arena.gradients);
  train_model_destroy(f->model);
  train_layout_destroy(f->layout);
}

/* The losses with their factors, summed over positions. */
static double objective(fixture_t *f) {
  double loss;
  f->model->routed = (train_router_result_t){0};
  cr_assert_eq(
      train_model_loss(f->model, &f->provider, f->tokens, f->targets, SEQUENCES, LENGTH, &loss),
      COLL_OK);
  return loss + 0.3 * f->model->routed.balance + 0.1 * f->model->routed.z;
}

static double compute_gradients(fixture_t *f) {
  double loss;
  f->model->routed = (train_router_result_t){0};
  train_arena_begin(&f->arena);
  cr_assert_eq(train_model_forward_backward(f->model, &f->provider, f->tokens, f->targets,
                                            SEQUENCES, LENGTH, 1, &loss),
               COLL_OK);
  return loss;
}

/* Along its gradient g, divided by its norm, a tensor's loss grows by its norm. */
static void check_tensor(fixture_t *f, const train_tensor_t *tensor) {
  const float h = 2e-3f;
  float *values = (float *)f->arena.parameters + tensor->offset;
  const float *gradients = f->arena.gradients + tensor->offset;
  size_t count = train_tensor_count(tensor);
  double ends[2];
  float norm = (float)norm_of(gradients, count), center[count];
  memcpy(center, values, sizeof center);
  for (int end = 0; end < 2; end++) {
    float step = (end == 0 ? h : -h) / norm;
    for (size_t i = 0; i < count; i++) values[i] = center[i] + step * gradients[i];
    ends[end] = objective(f);
  }
  memcpy(values, center, sizeof center);
  cr_assert_float_eq((ends[0] - ends[1]) / (2 * (double)h), (double)norm, 0.01 * (1 + (double)norm),
                     "%s: the loss grows by %g, not %g", tensor->name,
                     (ends[0] - ends[1]) / (2 * (double)h), (double)norm);
}

static void check_gradients_of(const train_model_config_t *config) {
  fixture_t f;
  setup(config, &(train_model_options_t){0}, &f);
  compute_gradients(&f);
  cr_assert_gt(f.model->routed.dropped, 0);
  cr_assert_gt(f.model->routed.kept, 0);
  for (int i = 0; i < f.layout->tensor_count; i++) {
    if (train_tensor_count(&f.layout->tensors[i]) > 0) check_tensor(&f, &f.layout->tensors[i]);
  }
  teardown(&f);
}

Test(moe_model, gradients_match_the_growth_of_the_loss) {
  check_gradients_of(&shared);
  check_gradients_of(&all_blocks);
}

static void check_bits(const train_model_config_t *config, const train_model_options_t *options) {
  fixture_t plain, other;
  setup(config, &(train_model_options_t){0}, &plain);
  setup(config, options, &other);
  cr_assert_eq(compute_gradients(&plain), compute_gradients(&other));
  cr_assert_arr_eq(plain.arena.gradients, other.arena.gradients,
                   plain.layout->parameter_count * sizeof(float));
  cr_assert_eq(plain.model->routed.dropped, other.model->routed.dropped);
  teardown(&plain), teardown(&other);
}

Test(moe_model, recomputation_and_threads_preserve_bits) {
  train_pool_t *pool;
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  const train_model_options_t options[] = {{.recompute = TRAIN_RECOMPUTE_ATTENTION},
                                           {.recompute = TRAIN_RECOMPUTE_BLOCK},
                                           {.pool = pool}};
  for (int i = 0; i < 3; i++) {
    check_bits(&shared, &options[i]);
    check_bits(&all_blocks, &options[i]);
  }
  train_pool_destroy(pool);
}

/* Sequences are extended without dropping, so that a token's experts do not depend on the length.
 */
Test(moe_model, extending_drops_nothing) {
  fixture_t f;
  float once[11], twice[11];
  setup(&shared, &(train_model_options_t){.forward_only = true}, &f);
  cr_assert_eq(train_model_extend(f.model, &f.provider, f.tokens, 0, 8, once), COLL_OK);
  cr_assert_eq(f.model->routed.dropped, 0);
  cr_assert_eq(train_model_extend(f.model, &f.provider, f.tokens, 0, 5, twice), COLL_OK);
  cr_assert_eq(train_model_extend(f.model, &f.provider, f.tokens + 5, 5, 3, twice), COLL_OK);
  for (int i = 0; i < 11; i++) cr_assert_float_eq((double)once[i], (double)twice[i], 1e-4);
  teardown(&f);
}

/* ---- a split backward pass ---- */

/* An arena that counts the gradients that are opened. */
typedef struct counted_arena {
  train_param_provider_t inner;
  int opened;
} counted_arena_t;

static coll_status_t counted_acquire(void *context, int unit, int next, const void **parameters) {
  const counted_arena_t *counted = context;
  return counted->inner.acquire(counted->inner.context, unit, next, parameters);
}

static void counted_release(void *context, int unit) {
  const counted_arena_t *counted = context;
  counted->inner.release(counted->inner.context, unit);
}

static coll_status_t counted_open(void *context, int unit, float **gradients, bool *overwrite) {
  counted_arena_t *counted = context;
  counted->opened++;
  return counted->inner.open_gradients(counted->inner.context, unit, gradients, overwrite);
}

static coll_status_t counted_close(void *context, int unit) {
  const counted_arena_t *counted = context;
  return counted->inner.close_gradients(counted->inner.context, unit);
}

/* The gradients of the first three of four layers, for a gradient of their output; in two parts if
 * `splits`, of which the first opens no gradients, and the second needs no parameters. */
static void stage_gradients(bool splits, const fixture_t *f, const train_layout_t *stage,
                            float *gradients) {
  const train_model_options_t options = {
      .sequences = SEQUENCES,
      .split_backward = splits,
      .experts = {.capacity_factor = 1, .balance = 0.3f, .z = 0.1f}};
  train_arena_t arena = {
      .layout = stage, .parameters = f->arena.parameters, .gradients = gradients};
  counted_arena_t counted = {.inner = train_arena_provider(&arena)};
  const train_param_provider_t provider = {.context = &counted,
                                           .acquire = counted_acquire,
                                           .release = counted_release,
                                           .open_gradients = counted_open,
                                           .close_gradients = counted_close};
  train_model_t *model;
  double loss;
  cr_assert_eq(train_model_create(stage, &options, &model), COLL_OK);
  train_arena_begin(&arena);
  cr_assert_eq(train_model_forward(model, &provider, 0, f->tokens, SEQUENCES, LENGTH), COLL_OK);
  random_fill(3, 1, train_model_stream_count(model, SEQUENCES, LENGTH),
              train_model_gradient(model));
  if (splits) {
    cr_assert_eq(train_model_backward_input(model, &provider, 0, NULL, 0.5f, &loss), COLL_OK);
    cr_assert_eq(counted.opened, 0, "the first part computes %d units' gradients", counted.opened);
    arena.parameters = NULL;
    cr_assert_eq(train_model_backward_weight(model, &provider, 0), COLL_OK);
  } else {
    cr_assert_eq(train_model_backward(model, &provider, 0, NULL, 0.5f, &loss), COLL_OK);
  }
  cr_assert_eq(counted.opened, stage->unit_count);
  train_model_destroy(model);
}

static void check_split(const train_model_config_t *config) {
  const train_part_t part = {
      .tensor_ranks = 1, .chunk_count = 1, .chunks = {{0, config->layers - 1}}};
  fixture_t f;
  train_layout_t *stage;
  setup(config, &(train_model_options_t){0}, &f);
  cr_assert_eq(train_layout_create_part(config, &part, &stage), COLL_OK);
  float *whole = calloc(stage->parameter_count, sizeof *whole),
        *split = calloc(stage->parameter_count, sizeof *split);
  stage_gradients(false, &f, stage, whole);
  stage_gradients(true, &f, stage, split);
  for (int i = 0; i < stage->tensor_count; i++) {
    const train_tensor_t *tensor = &stage->tensors[i];
    cr_assert_arr_eq(split + tensor->offset, whole + tensor->offset,
                     train_tensor_count(tensor) * sizeof(float), "%s", tensor->name);
  }
  free(whole), free(split);
  train_layout_destroy(stage);
  teardown(&f);
}

Test(moe_model, split_backward_preserves_bits) {
  check_split(&shared);
  check_split(&all_blocks);
}

/* ---- layouts ---- */

static void count_owned(const train_layout_t *part, const train_layout_t *whole, uint8_t *owners) {
  for (size_t at = 0, full; at < part->parameter_count;) {
    size_t run = train_layout_run(part, at, &full);
    for (size_t i = 0; i < run && full != TRAIN_LAYOUT_PADDING; i++) {
      const train_tensor_t *tensor = train_layout_tensor_at(part, at + i);
      cr_assert_str_eq(tensor->name, train_layout_tensor_at(whole, full + i)->name);
      owners[full + i] += tensor->owned;
    }
    at += run;
  }
}

/* Dense tensors are owned by the parts of every expert rank, since the ranks of a store hold them
 * together, and whole experts by those of every tensor rank. */
static void check_division(int tensor_ranks, int expert_ranks, int stages, bool whole_experts) {
  train_layout_t *whole, *layout;
  cr_assert_eq(train_layout_create(&shared, &whole), COLL_OK);
  uint8_t *owners = calloc(whole->parameter_count, 1);
  for (int i = 0; i < tensor_ranks * expert_ranks * stages; i++) {
    int each = shared.layers / stages;
    const train_part_t part = {.tensor_rank = i % tensor_ranks,
                               .tensor_ranks = tensor_ranks,
                               .expert_rank = i / tensor_ranks % expert_ranks,
                               .expert_ranks = expert_ranks,
                               .whole_experts = whole_experts,
                               .chunk_count = 1,
                               .chunks = {{i / tensor_ranks / expert_ranks * each, each}}};
    cr_assert_eq(train_layout_create_part(&shared, &part, &layout), COLL_OK);
    count_owned(layout, whole, owners);
    train_layout_destroy(layout);
  }
  for (size_t i = 0; i < whole->parameter_count; i++) {
    const train_tensor_t *tensor = train_layout_tensor_at(whole, i);
    int of_experts = whole_experts ? tensor_ranks : 1;
    int expected = tensor->unit >= whole->block_units ? of_experts : expert_ranks;
    cr_assert_eq(owners[i], expected, "%zu of %s has %d owners", i, tensor->name, owners[i]);
  }
  free(owners);
  train_layout_destroy(whole);
}

Test(moe_model, parts_divide_the_experts) {
  check_division(1, 1, 1, false);
  check_division(1, 4, 1, false);
  check_division(2, 1, 1, false);
  check_division(2, 2, 2, false);
  check_division(2, 2, 2, true);
}

Test(moe_model, blocks_without_experts_are_dense) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&shared, &layout), COLL_OK);
  cr_assert_eq(layout->unit_count, 1 + 4 + 2);
  const int expected[] = {-1, 5, -1, 6};
  for (int layer = 0; layer < 4; layer++) {
    cr_assert_eq(train_layout_experts_unit(layout, 1 + layer), expected[layer]);
    cr_assert_eq(train_layout_tensor(layout, 1 + layer, TRAIN_GATE_WEIGHT)->rows,
                 layer % 2 == 1 ? 4 : 0);
    cr_assert_eq(train_layout_tensor(layout, 1 + layer, TRAIN_MLP_WEIGHT)->rows, 16);
  }
  cr_assert_str_eq(train_layout_tensor(layout, 6, TRAIN_EXPERT_OUTPUT_BIAS)->name,
                   "h.3.experts.c_proj.bias");
  train_layout_destroy(layout);
}

static void check_refused(train_model_config_t config, int expert_ranks, const char *text) {
  train_part_t part = train_part_whole(config.layers);
  train_layout_t *layout;
  part.expert_ranks = expert_ranks;
  cr_assert_eq(train_layout_create_part(&config, &part, &layout), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), text), "%s", base_last_error());
}

Test(moe_model, rejects_wrong_sizes) {
  train_model_config_t config = shared;
  config.experts = -1, check_refused(config, 1, "experts -1 is out of range");
  config = shared, config.top_k = 3, check_refused(config, 1, "give --top-k 1 or 2");
  config = shared, config.experts = 1, check_refused(config, 1, "use 2 of 1 experts");
  config = shared, config.moe_every = 5, check_refused(config, 1, "give --moe-every 1 to 4");
  check_refused(shared, 3, "give --ep 2");
}
