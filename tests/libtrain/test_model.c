/* Compares the whole model with the reference; checks the flat layout and the initial values. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/model/model.h"
#include "reference.h"

#define SEQUENCES 2
#define MANY_SEQUENCES 10000 /* of which arrays are larger than a huge page; not allocated */
#define LENGTH 5             /* one less than the context, to test shorter sequences */

static const train_model_config_t tiny = {
    .vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 8};
static const int32_t tokens[SEQUENCES * LENGTH] = {3, 0, 6, 3, 5, 5, 1, 2, 0, 4};
static const int32_t targets[SEQUENCES * LENGTH] = {0, 6, 3, 5, 1, 1, 2, 0, 4, 4};

/* A model with its own parameters and gradients. */
typedef struct model_fixture {
  train_layout_t *layout;
  train_model_t *model;
  train_arena_t arena;
  train_param_provider_t provider;
} model_fixture_t;

/* Uses values large enough that every path through the model affects the result. */
static void setup_with(const train_model_config_t *config, const train_model_options_t *chosen,
                       model_fixture_t *model_fixture) {
  train_model_options_t options = *chosen;
  options.sequences = SEQUENCES;
  cr_assert_eq(train_layout_create(config, &model_fixture->layout), COLL_OK, "%s",
               base_last_error());
  cr_assert_eq(train_model_create(model_fixture->layout, &options, &model_fixture->model), COLL_OK);
  size_t count = model_fixture->layout->parameter_count;
  model_fixture->arena = (train_arena_t){.layout = model_fixture->layout,
                                         .parameters = calloc(count, sizeof(float)),
                                         .gradients = malloc(count * sizeof(float))};
  model_fixture->arena.dtype = train_precision_stored(options.precision, TRAIN_KIND_WEIGHTS);
  random_fill(1, 0.4, count, model_fixture->arena.parameters);
  train_dtype_narrow(model_fixture->arena.dtype, model_fixture->arena.parameters, count,
                     model_fixture->arena.parameters);
  memset(model_fixture->arena.gradients, 0xff, count * sizeof(float)); /* NaN: every element must be
                                                                        * overwritten */
  model_fixture->provider = train_arena_provider(&model_fixture->arena);
}

static void setup(const train_model_config_t *config, model_fixture_t *model_fixture) {
  setup_with(config, &(train_model_options_t){0}, model_fixture);
}

static void teardown(model_fixture_t *model_fixture) {
  free(model_fixture->arena.parameters);
  free(model_fixture->arena.gradients);
  train_model_destroy(model_fixture->model);
  train_layout_destroy(model_fixture->layout);
}

/* Adds the gradients of one micro-batch and returns its loss. */
static double accumulate_gradients(model_fixture_t *model_fixture, float scale) {
  double loss;
  cr_assert_eq(train_model_forward_backward(model_fixture->model, &model_fixture->provider, tokens,
                                            targets, SEQUENCES, LENGTH, scale, &loss),
               COLL_OK);
  return loss;
}

Test(model, gradients_match_central_differences) {
  model_fixture_t model_fixture;
  setup(&tiny, &model_fixture);
  size_t count = model_fixture.layout->parameter_count;
  double *p = malloc(count * sizeof *p), loss;
  for (size_t i = 0; i < count; i++) p[i] = (double)((float *)model_fixture.arena.parameters)[i];
  double expected = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
  cr_assert_eq(train_model_loss(model_fixture.model, &model_fixture.provider, tokens, targets,
                                SEQUENCES, LENGTH, &loss),
               COLL_OK);
  cr_assert_float_eq(loss, expected, 1e-5 * expected, "loss %.8g, not %.8g", loss, expected);
  cr_assert_eq(accumulate_gradients(&model_fixture, 1), loss);
  for (size_t i = 0; i < count; i++) {
    const double h = 1e-5;
    double center = p[i], got = (double)model_fixture.arena.gradients[i];
    p[i] = center + h;
    double above = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
    p[i] = center - h;
    double below = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
    p[i] = center;
    double slope = (above - below) / (2 * h);
    cr_assert_float_eq(got, slope, 1e-4 * (1 + fabs(slope)), "gradient[%zu] is %g, not %g", i, got,
                       slope);
  }
  free(p);
  teardown(&model_fixture);
}

Test(model, gradients_are_scaled_and_accumulated) {
  model_fixture_t model_fixture;
  setup(&tiny, &model_fixture);
  size_t count = model_fixture.layout->parameter_count;
  float *once = malloc(count * sizeof *once);
  accumulate_gradients(&model_fixture, 1);
  memcpy(once, model_fixture.arena.gradients, count * sizeof *once);
  train_arena_begin(&model_fixture.arena);
  accumulate_gradients(&model_fixture, 0.5f);
  accumulate_gradients(&model_fixture, 0.5f);
  for (size_t i = 0; i < count; i++) {
    cr_assert_float_eq((double)once[i], (double)model_fixture.arena.gradients[i],
                       1e-5 * (1 + fabs((double)once[i])));
  }
  free(once);
  teardown(&model_fixture);
}

Test(model, later_tokens_do_not_change_the_loss_of_earlier_ones) {
  model_fixture_t model_fixture;
  setup(&tiny, &model_fixture);
  double shorter, longer[2];
  int32_t changed[LENGTH];
  memcpy(changed, tokens, sizeof changed);
  changed[LENGTH - 1] = 2;
  train_model_loss(model_fixture.model, &model_fixture.provider, tokens, targets, 1, LENGTH - 1,
                   &shorter);
  train_model_loss(model_fixture.model, &model_fixture.provider, tokens, targets, 1, LENGTH,
                   &longer[0]);
  train_model_loss(model_fixture.model, &model_fixture.provider, changed, targets, 1, LENGTH,
                   &longer[1]);
  cr_assert_neq(longer[0], longer[1]);
  const float last[] = {(float)(longer[0] - shorter), (float)(longer[1] - shorter)};
  cr_assert(last[0] > 0 && last[1] > 0, "losses of the last position: %g and %g", (double)last[0],
            (double)last[1]);
  teardown(&model_fixture);
}

/* The logits from extending a sequence by one position must give the loss of that position. */
Test(model, extending_agrees_with_the_loss) {
  model_fixture_t model_fixture;
  setup(&tiny, &model_fixture);
  double losses[LENGTH + 1] = {0};
  for (int length = 1; length <= LENGTH; length++) {
    train_model_loss(model_fixture.model, &model_fixture.provider, tokens, targets, 1, length,
                     &losses[length]);
  }
  const int starts[] = {0, 2, 3, 4, LENGTH}; /* two positions at once, then one at a time */
  for (int i = 0; i + 1 < 5; i++) {
    float logits[7];
    double sum = 0;
    int next = starts[i + 1];
    cr_assert_eq(train_model_extend(model_fixture.model, &model_fixture.provider,
                                    tokens + starts[i], starts[i], next - starts[i], logits),
                 COLL_OK);
    for (int j = 0; j < 7; j++) sum += exp((double)logits[j]);
    double loss = log(sum) - (double)logits[targets[next - 1]];
    cr_assert_float_eq(loss, losses[next] - losses[next - 1], 1e-4, "at %d: %g, not %g", next, loss,
                       losses[next] - losses[next - 1]);
  }
  teardown(&model_fixture);
}

/* A model of some size, whose activations dominate its memory. */
static const train_model_config_t small = {
    .vocabulary = 64, .context = 2 * LENGTH, .layers = 3, .heads = 2, .width = 64};

static double root_mean_square(const float *values, const float *minus, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    double value = (double)values[i] - (minus != NULL ? (double)minus[i] : 0.0);
    sum += value * value;
  }
  return sqrt(sum / (double)count);
}

/* Loss and gradients of the same rounded parameters, relative to those in float32. The bounds are
 * in units of the type's last place; rounding each activation once costs a few of them. */
static void check_precision(train_precision_t precision, double last_place) {
  model_fixture_t wide, narrow;
  const train_model_options_t options = {.precision = precision};
  setup(&small, &wide);
  setup_with(&small, &options, &narrow);
  size_t count = wide.layout->parameter_count;
  random_fill(1, 0.1, count, wide.arena.parameters);
  train_dtype_narrow(narrow.arena.dtype, wide.arena.parameters, count, narrow.arena.parameters);
  train_dtype_widen(narrow.arena.dtype, narrow.arena.parameters, count, wide.arena.parameters);
  double expected = accumulate_gradients(&wide, 1), got = accumulate_gradients(&narrow, 1);
  cr_assert_float_eq(got, expected, 2 * last_place * expected, "loss %g, not %g", got, expected);
  cr_assert_neq(got, expected, "not computed in %s", train_precision_names[precision]);
  double error = root_mean_square(narrow.arena.gradients, wide.arena.gradients, count),
         scale = root_mean_square(wide.arena.gradients, NULL, count);
  cr_assert_lt(error, 4 * last_place * scale, "rms error of gradients %g of rms %g", error, scale);
  teardown(&wide);
  teardown(&narrow);
}

Test(model, narrow_precisions_are_as_exact_as_their_types) {
  check_precision(TRAIN_PRECISION_BF16, 0x1p-8);
  check_precision(TRAIN_PRECISION_FP16, 0x1p-11);
}

Test(model, narrow_activations_take_half_the_memory) {
  train_layout_t *layout;
  train_model_config_t config;
  cr_assert_eq(train_preset_find("gpt2", &config), COLL_OK);
  cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
  train_model_options_t options = {.sequences = 8};
  size_t wide = train_model_bytes(layout, &options);
  options.precision = TRAIN_PRECISION_BF16;
  size_t narrow = train_model_bytes(layout, &options);
  cr_assert_leq(narrow, wide / 2 + wide / 50, "%zu bytes instead of %zu", narrow, wide);
  train_layout_destroy(layout);
}

static void check_bits_are_preserved(train_precision_t precision) {
  model_fixture_t plain, other;
  train_pool_t *pool;
  const train_model_options_t alone = {.precision = precision};
  setup_with(&tiny, &alone, &plain);
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  double loss = accumulate_gradients(&plain, 1);
  size_t bytes = plain.layout->parameter_count * sizeof(float);
  for (int what = 0; what <= TRAIN_RECOMPUTE_BLOCK; what++) {
    const train_model_options_t options = {
        .recompute = (train_recompute_t)what, .pool = pool, .precision = precision};
    setup_with(&tiny, &options, &other);
    cr_assert_eq(accumulate_gradients(&other, 1), loss, "recompute %d", what);
    cr_assert_arr_eq(plain.arena.gradients, other.arena.gradients, bytes, "recompute %d", what);
    teardown(&other);
  }
  train_pool_destroy(pool);
  teardown(&plain);
}

Test(model, recomputation_and_threads_preserve_bits) {
  check_bits_are_preserved(TRAIN_PRECISION_FLOAT32);
  check_bits_are_preserved(TRAIN_PRECISION_BF16);
  check_bits_are_preserved(TRAIN_PRECISION_FP16);
}

Test(model, recomputation_needs_less_memory) {
  const train_model_config_t deep = {
      .vocabulary = 7, .context = 6, .layers = 9, .heads = 2, .width = 8};
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&deep, &layout), COLL_OK);
  train_model_options_t options = {.sequences = MANY_SEQUENCES};
  size_t needed = train_model_bytes(layout, &options);
  for (int what = 1; what <= TRAIN_RECOMPUTE_BLOCK; what++) {
    options.recompute = (train_recompute_t)what;
    size_t fewer = train_model_bytes(layout, &options);
    cr_assert_lt(fewer, needed, "recompute %d: %zu bytes", what, fewer);
    needed = fewer;
  }
  train_layout_destroy(layout);
}

static void check_forward_only(train_precision_t precision) {
  model_fixture_t both, forward;
  const train_model_options_t options = {.forward_only = true, .precision = precision};
  const train_model_options_t training = {.precision = precision};
  double expected, got;
  float logits[2][7];
  setup_with(&tiny, &training, &both);
  setup_with(&tiny, &options, &forward);
  train_model_loss(both.model, &both.provider, tokens, targets, SEQUENCES, LENGTH, &expected);
  train_model_loss(forward.model, &forward.provider, tokens, targets, SEQUENCES, LENGTH, &got);
  cr_assert_eq(got, expected);
  for (int at = 0; at < LENGTH; at++) {
    train_model_extend(both.model, &both.provider, tokens + at, at, 1, logits[0]);
    train_model_extend(forward.model, &forward.provider, tokens + at, at, 1, logits[1]);
    cr_assert_arr_eq(logits[0], logits[1], sizeof logits[0], "at %d", at);
  }
  forward.model->options.sequences = both.model->options.sequences = MANY_SEQUENCES;
  cr_assert_lt(train_model_bytes(forward.layout, &forward.model->options),
               train_model_bytes(both.layout, &both.model->options));
  teardown(&both);
  teardown(&forward);
}

Test(model, forward_only_gives_the_same_loss_and_logits) {
  check_forward_only(TRAIN_PRECISION_FLOAT32);
  check_forward_only(TRAIN_PRECISION_BF16);
  check_forward_only(TRAIN_PRECISION_FP16);
}

Test(model, initial_loss_is_that_of_a_uniform_guess) {
  model_fixture_t model_fixture;
  setup(&small, &model_fixture);
  train_layout_initialize(NULL, model_fixture.layout, 5, 0, model_fixture.layout->parameter_count,
                          model_fixture.arena.parameters);
  cr_assert_float_eq(accumulate_gradients(&model_fixture, 1) / (SEQUENCES * LENGTH), log(64), 0.4);
  teardown(&model_fixture);
}

/* A provider that records its calls as text: "a0.1" acquires unit 0 with next unit 1, "r0" releases
 * it, "o0" opens its gradients, "c0" closes them. Call number `fails_at` fails. */
typedef struct call_log {
  train_param_provider_t inner;
  char text[256];
  int calls, fails_at;
  int held; /* units acquired and not released */
} call_log_t;

static coll_status_t note(call_log_t *call_log, const char *what, int unit, int next) {
  size_t used = strlen(call_log->text);
  snprintf(call_log->text + used, sizeof call_log->text - used, next > -2 ? " %s%d.%d" : " %s%d",
           what, unit, next);
  return ++call_log->calls == call_log->fails_at ? COLL_ERROR_RANK_LOST : COLL_OK;
}

static coll_status_t note_acquire(void *context, int unit, int next, const void **parameters) {
  call_log_t *call_log = context;
  COLL_TRY(note(call_log, "a", unit, next));
  call_log->held++;
  return call_log->inner.acquire(call_log->inner.context, unit, next, parameters);
}

static void note_release(void *context, int unit) {
  call_log_t *call_log = context;
  call_log->held--;
  size_t used = strlen(call_log->text);
  snprintf(call_log->text + used, sizeof call_log->text - used, " r%d", unit);
}

static coll_status_t note_open(void *context, int unit, float **gradients, bool *overwrite) {
  call_log_t *call_log = context;
  COLL_TRY(note(call_log, "o", unit, -2));
  return call_log->inner.open_gradients(call_log->inner.context, unit, gradients, overwrite);
}

static coll_status_t note_close(void *context, int unit) {
  call_log_t *call_log = context;
  COLL_TRY(note(call_log, "c", unit, -2));
  return call_log->inner.close_gradients(call_log->inner.context, unit);
}

static coll_status_t run_noted(model_fixture_t *model_fixture, int fails_at, call_log_t *call_log) {
  *call_log = (call_log_t){.inner = model_fixture->provider, .fails_at = fails_at};
  const train_param_provider_t provider = {call_log, note_acquire, note_release, note_open,
                                           note_close};
  double loss;
  return train_model_forward_backward(model_fixture->model, &provider, tokens, targets, SEQUENCES,
                                      LENGTH, 1, &loss);
}

Test(model, calls_its_provider_in_the_documented_order) {
  model_fixture_t model_fixture;
  call_log_t call_log;
  setup(&tiny, &model_fixture);
  cr_assert_eq(run_noted(&model_fixture, 0, &call_log), COLL_OK);
  cr_assert_str_eq(call_log.text,
                   " a0.1 r0 a1.2 r1 a2.0 r2 a0.2 o0 r0 a2.1 o2 r2 c2 a1.-1 o1 r1 c1 c0");
  teardown(&model_fixture);
}

Test(model, returns_provider_errors_and_releases_units) {
  model_fixture_t model_fixture;
  call_log_t call_log;
  setup(&tiny, &model_fixture);
  for (int call = 1; call <= 12; call++) {
    cr_assert_eq(run_noted(&model_fixture, call, &call_log), COLL_ERROR_RANK_LOST, "call %d", call);
    cr_assert_eq(call_log.held, 0, "call %d: %s", call, call_log.text);
    cr_assert_eq(call_log.calls, call);
  }
  cr_assert_eq(run_noted(&model_fixture, 13, &call_log), COLL_OK);
  teardown(&model_fixture);
}

Test(layout, units_and_tensors_fill_the_flat_space) {
  train_layout_t *layout;
  size_t end = 0;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  int index = 0;
  for (int unit = 0; unit < layout->unit_count; unit++) {
    cr_assert_eq(layout->units[unit].offset, end);
    for (; index < layout->tensor_count && layout->tensors[index].unit == unit; index++) {
      const train_tensor_t *tensor = &layout->tensors[index];
      cr_assert_eq(tensor->offset, end);
      end += (size_t)(tensor->rows * tensor->columns);
      cr_assert_eq(tensor->decays, tensor->rows > 1);
    }
    cr_assert_eq(layout->units[unit].offset + layout->units[unit].count, end);
  }
  cr_assert_eq(index, layout->tensor_count);
  cr_assert_eq(end, layout->parameter_count);
  cr_assert_eq(end, 7 * 8 + 6 * 8 + 2 * (12 * 64 + 13 * 8) + 2 * 8);
  const train_tensor_t *qkv = train_layout_tensor(layout, 2, TRAIN_QKV_WEIGHT);
  cr_assert_str_eq(qkv->name, "h.1.attn.c_attn.weight");
  cr_assert(qkv->linear);
  cr_assert_str_eq(train_layout_tensor(layout, 0, TRAIN_FINAL_BIAS)->name, "ln_f.bias");
  cr_assert(!train_layout_tensor(layout, 0, TRAIN_TOKEN_TABLE)->linear);
  train_layout_destroy(layout);
}

Test(layout, any_range_of_initial_values_is_the_same) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  size_t count = layout->parameter_count, step = 37;
  float *all_values = malloc(count * sizeof *all_values), range[37];
  train_layout_initialize(NULL, layout, 3, 0, count, all_values);
  for (size_t first = 0; first < count; first += step) {
    size_t here = count - first < step ? count - first : step;
    memset(range, 0xff, sizeof range);
    train_layout_initialize(NULL, layout, 3, first, here, range);
    cr_assert_arr_eq(range, all_values + first, here * sizeof *range);
  }
  size_t norm = train_layout_tensor(layout, 1, TRAIN_NORM2_WEIGHT)->offset;
  cr_assert_eq(all_values[norm], 1);
  cr_assert_eq(all_values[norm + 8], 0);
  free(all_values);
  train_layout_destroy(layout);
}

Test(layout, presets_have_the_published_sizes) {
  const struct {
    const char *name;
    size_t parameters;
  } known[] = {{"gpt2", 124439808},
               {"gpt2-medium", 354823168},
               {"gpt2-large", 774030080},
               {"gpt2-xl", 1557611200}};
  for (int i = 0; i < 4; i++) {
    train_model_config_t config;
    train_layout_t *layout;
    cr_assert_eq(train_preset_find(known[i].name, &config), COLL_OK);
    cr_assert_eq(train_layout_create(&config, &layout), COLL_OK);
    cr_assert_eq(layout->parameter_count, known[i].parameters, "%s: %zu", known[i].name,
                 layout->parameter_count);
    train_layout_destroy(layout);
  }
  train_model_config_t config;
  cr_assert_eq(train_preset_find("gpt2-big", &config), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "did you mean 'gpt2"), "%s", base_last_error());
}

Test(layout, counts_the_flops_per_token) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  double parameters = 7 * 8 + 2 * (12 * 64 + 13 * 8) + 2 * 8; /* without the position table, 6 x
                                                               * 8 */
  cr_assert_float_eq(train_layout_flops_per_token(layout, 5), 6 * parameters + 12 * 2 * 8 * 5,
                     1e-9);
  train_layout_destroy(layout);
}

Test(layout, rejects_wrong_sizes) {
  train_layout_t *layout;
  train_model_config_t config = tiny;
  config.heads = 3;
  cr_assert_eq(train_layout_create(&config, &layout), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "3 heads do not divide width 8"));
  config = tiny;
  config.layers = 0;
  cr_assert_eq(train_layout_create(&config, &layout), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "layers 0"));
  config = tiny;
  config.width = 32768, config.layers = 1024;
  cr_assert_eq(train_layout_create(&config, &layout), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "parameters"));
}
