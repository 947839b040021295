/* The whole model against the reference; its parts in the flat space; its initial values. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/model/model.h"
#include "reference.h"

#define SEQUENCES 2
#define LENGTH 5 /* one less than the context: shorter sequences are fine */

static const train_model_config_t tiny = {
    .vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 8};
static const int32_t tokens[SEQUENCES * LENGTH] = {3, 0, 6, 3, 5, 5, 1, 2, 0, 4};
static const int32_t targets[SEQUENCES * LENGTH] = {0, 6, 3, 5, 1, 1, 2, 0, 4, 4};

/* A model with parameters and gradients of its own. */
typedef struct bench {
  train_layout_t *layout;
  train_model_t *model;
  train_arena_t arena;
  train_param_provider_t provider;
} bench_t;

/* Values large enough that every path through the model matters. */
static void setup_with(const train_model_config_t *config, const train_model_options_t *chosen,
                       bench_t *bench) {
  train_model_options_t options = *chosen;
  options.sequences = SEQUENCES;
  cr_assert_eq(train_layout_create(config, &bench->layout), COLL_OK, "%s", base_last_error());
  cr_assert_eq(train_model_create(bench->layout, &options, &bench->model), COLL_OK);
  size_t count = bench->layout->parameter_count;
  bench->arena = (train_arena_t){.layout = bench->layout,
                                 .parameters = calloc(count, sizeof(float)),
                                 .gradients = malloc(count * sizeof(float))};
  random_fill(1, 0.4, count, bench->arena.parameters);
  memset(bench->arena.gradients, 0xff, count * sizeof(float)); /* NaN: each must be written */
  bench->provider = train_arena_provider(&bench->arena);
}

static void setup(const train_model_config_t *config, bench_t *bench) {
  setup_with(config, &(train_model_options_t){0}, bench);
}

static void teardown(bench_t *bench) {
  free(bench->arena.parameters);
  free(bench->arena.gradients);
  train_model_destroy(bench->model);
  train_layout_destroy(bench->layout);
}

/* Adds the gradients of one micro-batch and returns its loss. */
static double learn(bench_t *bench, float scale) {
  double loss;
  cr_assert_eq(train_model_forward_backward(bench->model, &bench->provider, tokens, targets,
                                            SEQUENCES, LENGTH, scale, &loss),
               COLL_OK);
  return loss;
}

Test(model, gradients_match_differences_of_the_reference) {
  bench_t bench;
  setup(&tiny, &bench);
  size_t count = bench.layout->parameter_count;
  double *p = malloc(count * sizeof *p), loss;
  for (size_t i = 0; i < count; i++) p[i] = (double)bench.arena.parameters[i];
  double expected = reference_model_loss(&tiny, p, tokens, targets, SEQUENCES, LENGTH);
  cr_assert_eq(
      train_model_loss(bench.model, &bench.provider, tokens, targets, SEQUENCES, LENGTH, &loss),
      COLL_OK);
  cr_assert_float_eq(loss, expected, 1e-5 * expected, "loss %.8g, not %.8g", loss, expected);
  cr_assert_eq(learn(&bench, 1), loss);
  for (size_t i = 0; i < count; i++) {
    const double h = 1e-5;
    double center = p[i], got = (double)bench.arena.gradients[i];
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
  teardown(&bench);
}

Test(model, gradients_are_scaled_and_added) {
  bench_t bench;
  setup(&tiny, &bench);
  size_t count = bench.layout->parameter_count;
  float *once = malloc(count * sizeof *once);
  learn(&bench, 1);
  memcpy(once, bench.arena.gradients, count * sizeof *once);
  train_arena_begin(&bench.arena);
  learn(&bench, 0.5f);
  learn(&bench, 0.5f);
  for (size_t i = 0; i < count; i++) {
    cr_assert_float_eq((double)once[i], (double)bench.arena.gradients[i],
                       1e-5 * (1 + fabs((double)once[i])));
  }
  free(once);
  teardown(&bench);
}

Test(model, later_tokens_do_not_change_the_loss_of_earlier_ones) {
  bench_t bench;
  setup(&tiny, &bench);
  double shorter, longer[2];
  int32_t changed[LENGTH];
  memcpy(changed, tokens, sizeof changed);
  changed[LENGTH - 1] = 2;
  train_model_loss(bench.model, &bench.provider, tokens, targets, 1, LENGTH - 1, &shorter);
  train_model_loss(bench.model, &bench.provider, tokens, targets, 1, LENGTH, &longer[0]);
  train_model_loss(bench.model, &bench.provider, changed, targets, 1, LENGTH, &longer[1]);
  cr_assert_neq(longer[0], longer[1]);
  const float last[] = {(float)(longer[0] - shorter), (float)(longer[1] - shorter)};
  cr_assert(last[0] > 0 && last[1] > 0, "losses of the last position: %g and %g", (double)last[0],
            (double)last[1]);
  teardown(&bench);
}

/* The loss of one more position is what extending the sequence says of its target. */
Test(model, extending_says_what_the_loss_measures) {
  bench_t bench;
  setup(&tiny, &bench);
  double losses[LENGTH + 1] = {0};
  for (int length = 1; length <= LENGTH; length++) {
    train_model_loss(bench.model, &bench.provider, tokens, targets, 1, length, &losses[length]);
  }
  const int starts[] = {0, 2, 3, 4, LENGTH}; /* two positions at once, then one by one */
  for (int i = 0; i + 1 < 5; i++) {
    float logits[7];
    double sum = 0;
    int next = starts[i + 1];
    cr_assert_eq(train_model_extend(bench.model, &bench.provider, tokens + starts[i], starts[i],
                                    next - starts[i], logits),
                 COLL_OK);
    for (int j = 0; j < 7; j++) sum += exp((double)logits[j]);
    double loss = log(sum) - (double)logits[targets[next - 1]];
    cr_assert_float_eq(loss, losses[next] - losses[next - 1], 1e-4, "at %d: %g, not %g", next, loss,
                       losses[next] - losses[next - 1]);
  }
  teardown(&bench);
}

Test(model, recomputing_and_threads_change_no_bit) {
  bench_t plain, other;
  train_pool_t *pool;
  setup(&tiny, &plain);
  cr_assert_eq(train_pool_create(3, &pool), COLL_OK);
  double loss = learn(&plain, 1);
  size_t bytes = plain.layout->parameter_count * sizeof(float);
  for (int what = 0; what <= TRAIN_RECOMPUTE_BLOCK; what++) {
    const train_model_options_t options = {.recompute = (train_recompute_t)what, .pool = pool};
    setup_with(&tiny, &options, &other);
    cr_assert_eq(learn(&other, 1), loss, "recompute %d", what);
    cr_assert_arr_eq(plain.arena.gradients, other.arena.gradients, bytes, "recompute %d", what);
    teardown(&other);
  }
  const train_model_config_t deep = {
      .vocabulary = 7, .context = 6, .layers = 9, .heads = 2, .width = 8};
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&deep, &layout), COLL_OK);
  train_model_options_t options = {.sequences = SEQUENCES};
  size_t needed = train_model_bytes(layout, &options);
  for (int what = 1; what <= TRAIN_RECOMPUTE_BLOCK; what++) {
    options.recompute = (train_recompute_t)what;
    size_t fewer = train_model_bytes(layout, &options);
    cr_assert_lt(fewer, needed, "recompute %d: %zu bytes", what, fewer);
    needed = fewer;
  }
  train_layout_destroy(layout);
  train_pool_destroy(pool);
  teardown(&plain);
}

Test(model, forward_only_measures_and_extends_alike) {
  bench_t both, forward;
  const train_model_options_t options = {.forward_only = true};
  double expected, got;
  float logits[2][7];
  setup(&tiny, &both);
  setup_with(&tiny, &options, &forward);
  train_model_loss(both.model, &both.provider, tokens, targets, SEQUENCES, LENGTH, &expected);
  train_model_loss(forward.model, &forward.provider, tokens, targets, SEQUENCES, LENGTH, &got);
  cr_assert_eq(got, expected);
  for (int at = 0; at < LENGTH; at++) {
    train_model_extend(both.model, &both.provider, tokens + at, at, 1, logits[0]);
    train_model_extend(forward.model, &forward.provider, tokens + at, at, 1, logits[1]);
    cr_assert_arr_eq(logits[0], logits[1], sizeof logits[0], "at %d", at);
  }
  cr_assert_lt(train_model_bytes(forward.layout, &forward.model->options),
               train_model_bytes(both.layout, &both.model->options));
  teardown(&both);
  teardown(&forward);
}

Test(model, starts_at_the_loss_of_a_guess) {
  const train_model_config_t small = {
      .vocabulary = 64, .context = LENGTH, .layers = 2, .heads = 2, .width = 32};
  bench_t bench;
  setup(&small, &bench);
  train_layout_initialize(NULL, bench.layout, 5, 0, bench.layout->parameter_count,
                          bench.arena.parameters);
  cr_assert_float_eq(learn(&bench, 1) / (SEQUENCES * LENGTH), log(64), 0.4);
  teardown(&bench);
}

/* What a source is asked, as text: "a0.1" acquires unit 0 with 1 next, "r0" releases it, "o0"
 * opens its gradients, "c0" closes them. Fails at its `fails_at`-th call. */
typedef struct journal {
  train_param_provider_t inner;
  char text[256];
  int calls, fails_at;
  int held; /* units acquired and not released */
} journal_t;

static coll_status_t note(journal_t *journal, const char *what, int unit, int next) {
  size_t used = strlen(journal->text);
  snprintf(journal->text + used, sizeof journal->text - used, next > -2 ? " %s%d.%d" : " %s%d",
           what, unit, next);
  return ++journal->calls == journal->fails_at ? COLL_ERROR_RANK_LOST : COLL_OK;
}

static coll_status_t note_acquire(void *context, int unit, int next, const float **parameters) {
  journal_t *journal = context;
  COLL_TRY(note(journal, "a", unit, next));
  journal->held++;
  return journal->inner.acquire(journal->inner.context, unit, next, parameters);
}

static void note_release(void *context, int unit) {
  journal_t *journal = context;
  journal->held--;
  size_t used = strlen(journal->text);
  snprintf(journal->text + used, sizeof journal->text - used, " r%d", unit);
}

static coll_status_t note_open(void *context, int unit, float **gradients, bool *overwrite) {
  journal_t *journal = context;
  COLL_TRY(note(journal, "o", unit, -2));
  return journal->inner.open_gradients(journal->inner.context, unit, gradients, overwrite);
}

static coll_status_t note_close(void *context, int unit) {
  journal_t *journal = context;
  COLL_TRY(note(journal, "c", unit, -2));
  return journal->inner.close_gradients(journal->inner.context, unit);
}

static coll_status_t run_noted(bench_t *bench, int fails_at, journal_t *journal) {
  *journal = (journal_t){.inner = bench->provider, .fails_at = fails_at};
  const train_param_provider_t provider = {journal, note_acquire, note_release, note_open,
                                           note_close};
  double loss;
  return train_model_forward_backward(bench->model, &provider, tokens, targets, SEQUENCES, LENGTH,
                                      1, &loss);
}

Test(model, asks_its_source_in_the_stated_order) {
  bench_t bench;
  journal_t journal;
  setup(&tiny, &bench);
  cr_assert_eq(run_noted(&bench, 0, &journal), COLL_OK);
  cr_assert_str_eq(journal.text,
                   " a0.1 r0 a1.2 r1 a2.0 r2 a0.2 o0 r0 a2.1 o2 r2 c2 a1.-1 o1 r1 c1 c0");
  teardown(&bench);
}

Test(model, passes_its_sources_failures_on_and_holds_nothing) {
  bench_t bench;
  journal_t journal;
  setup(&tiny, &bench);
  for (int call = 1; call <= 12; call++) {
    cr_assert_eq(run_noted(&bench, call, &journal), COLL_ERROR_RANK_LOST, "call %d", call);
    cr_assert_eq(journal.held, 0, "call %d: %s", call, journal.text);
    cr_assert_eq(journal.calls, call);
  }
  cr_assert_eq(run_noted(&bench, 13, &journal), COLL_OK);
  teardown(&bench);
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

Test(layout, any_share_of_the_initial_values_is_the_same) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  size_t count = layout->parameter_count, step = 37;
  float *whole = malloc(count * sizeof *whole), share[37];
  train_layout_initialize(NULL, layout, 3, 0, count, whole);
  for (size_t first = 0; first < count; first += step) {
    size_t here = count - first < step ? count - first : step;
    memset(share, 0xff, sizeof share);
    train_layout_initialize(NULL, layout, 3, first, here, share);
    cr_assert_arr_eq(share, whole + first, here * sizeof *share);
  }
  size_t norm = train_layout_tensor(layout, 1, TRAIN_NORM2_WEIGHT)->offset;
  cr_assert_eq(whole[norm], 1);
  cr_assert_eq(whole[norm + 8], 0);
  free(whole);
  train_layout_destroy(layout);
}

Test(layout, presets_have_the_sizes_they_are_known_for) {
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

Test(layout, counts_the_arithmetic_of_a_token) {
  train_layout_t *layout;
  cr_assert_eq(train_layout_create(&tiny, &layout), COLL_OK);
  double parameters = 7 * 8 + 2 * (12 * 64 + 13 * 8) + 2 * 8; /* without 6 positions of 8 */
  cr_assert_float_eq(train_layout_flops_per_token(layout, 5), 6 * parameters + 12 * 2 * 8 * 5,
                     1e-9);
  train_layout_destroy(layout);
}

Test(layout, wrong_sizes_are_refused) {
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
