/*
 * How long a training step of a GPT-2 takes on one rank: forward, backward, gradient norm and
 * AdamW, on random weights and tokens, against the rate of single-precision matrix products that is
 * measured in the same run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "libtrain/model/model.h"
#include "libtrain/ops/blas.h"
#include "libtrain/optimizer.h"
#include "libtrain/random.h"
#include "libtrain/threads.h"

typedef struct settings {
  const char *preset, *recompute;
  int64_t batch, length, threads, steps;
} settings_t;

/* All of a rank: parameters, gradients, both moments, one after the other. */
typedef struct rank {
  train_layout_t *layout;
  train_pool_t *pool;
  train_model_t *model;
  train_arena_t arena;
  train_source_t source;
  float *arrays;
  int32_t *tokens, *targets;
} rank_t;

typedef struct timing {
  double passes_ms, norm_ms, adamw_ms, loss;
} timing_t;

static double ms_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-6;
}

static coll_status_t recompute_of(const char *name, train_recompute_t *recompute) {
  static const char *const names[] = {"none", "attention", "block"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    *recompute = (train_recompute_t)i;
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "--recompute %s: give none, attention or block", name);
}

static coll_status_t open_rank(const settings_t *settings, rank_t *rank) {
  train_model_config_t config;
  train_model_options_t options = {.sequences = (int)settings->batch};
  void *memory;
  COLL_TRY(train_preset_find(settings->preset, &config));
  COLL_TRY(recompute_of(settings->recompute, &options.recompute));
  config.context = (int32_t)settings->length;
  COLL_TRY(train_layout_create(&config, &rank->layout));
  int threads = settings->threads > 0 ? (int)settings->threads : train_threads_share(1);
  COLL_TRY(train_pool_create(threads, &rank->pool));
  options.pool = rank->pool;
  COLL_TRY(train_model_create(rank->layout, &options, &rank->model));
  size_t count = rank->layout->parameter_count, rows = (size_t)(settings->batch * settings->length);
  COLL_TRY(base_alloc(4 * count, sizeof(float), "the parameters", &memory));
  rank->arrays = memory;
  COLL_TRY(base_alloc(2 * rows, sizeof(int32_t), "the tokens", &memory));
  rank->tokens = memory;
  rank->targets = rank->tokens + rows;
  for (size_t i = 0; i < 2 * rows; i++) {
    rank->tokens[i] =
        (int32_t)train_random_below(1, TRAIN_RANDOM_BATCHES, i, (uint64_t)config.vocabulary);
  }
  rank->arena = (train_arena_t){
      .layout = rank->layout, .parameters = rank->arrays, .gradients = rank->arrays + count};
  rank->source = train_arena_source(&rank->arena);
  train_layout_initialize(rank->pool, rank->layout, 1, 0, count, rank->arrays);
  return COLL_OK;
}

static void close_rank(rank_t *rank) {
  free(rank->tokens);
  free(rank->arrays);
  train_model_destroy(rank->model);
  train_pool_destroy(rank->pool);
  train_layout_destroy(rank->layout);
}

static coll_status_t take_step(const settings_t *settings, rank_t *rank, uint64_t step,
                               timing_t *timing) {
  static const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  size_t count = rank->layout->parameter_count;
  float *gradients = rank->arena.gradients;
  int rows = (int)(settings->batch * settings->length);
  double loss;
  uint64_t start_ns = base_clock_now_ns();
  train_arena_begin(&rank->arena);
  COLL_TRY(train_model_forward_backward(rank->model, &rank->source, rank->tokens, rank->targets,
                                        (int)settings->batch, (int)settings->length,
                                        1.0f / (float)rows, &loss));
  timing->passes_ms = ms_since(start_ns);
  start_ns = base_clock_now_ns();
  double norm = sqrt(train_square_sum(rank->pool, gradients, count));
  timing->norm_ms = ms_since(start_ns);
  start_ns = base_clock_now_ns();
  train_adamw_step(rank->pool, &adamw, rank->layout, 0, count, gradients,
                   train_gradient_clip(norm, 1), 1e-4f, step, rank->arrays, gradients + count,
                   gradients + 2 * count);
  timing->adamw_ms = ms_since(start_ns);
  timing->loss = loss / rows;
  return COLL_OK;
}

static double total_of(const timing_t *timing) {
  return timing->passes_ms + timing->norm_ms + timing->adamw_ms;
}

static int by_total(const void *a, const void *b) {
  double x = total_of(a), y = total_of(b);
  return (x > y) - (x < y);
}

static void print_result(const char *which, const settings_t *settings, const rank_t *rank,
                         const timing_t *timing, double sgemm) {
  double tokens = (double)(settings->batch * settings->length);
  double per_s = tokens / total_of(timing) * 1e3;
  double flops = train_layout_flops_per_token(rank->layout, (int)settings->length);
  printf(
      "%s step %.1f ms (passes %.1f, norm %.1f, AdamW %.1f), %.0f tokens/s, %.1f GFLOP/s, "
      "%.1f %% of sgemm\n",
      which, total_of(timing), timing->passes_ms, timing->norm_ms, timing->adamw_ms, per_s,
      per_s * flops * 1e-9, 100 * per_s * flops / sgemm);
}

static coll_status_t run(const settings_t *settings, rank_t *rank) {
  double sgemm[2];
  void *memory;
  timing_t warm_up;
  int steps = (int)settings->steps;
  COLL_TRY(open_rank(settings, rank));
  COLL_TRY(base_alloc((size_t)steps, sizeof(timing_t), "the timings", &memory));
  timing_t *timings = memory;
  coll_status_t status = take_step(settings, rank, 1, &warm_up);
  if (status == COLL_OK) status = train_blas_rate(rank->pool, &sgemm[0]);
  for (int i = 0; i < steps && status == COLL_OK; i++) {
    status = take_step(settings, rank, (uint64_t)i + 2, &timings[i]);
  }
  if (status == COLL_OK) status = train_blas_rate(rank->pool, &sgemm[1]);
  if (status == COLL_OK) {
    double rate = sgemm[0] > sgemm[1] ? sgemm[0] : sgemm[1];
    printf("%s, batch %d of %d tokens, %d threads, recompute %s: %.1f MB of activations\n",
           settings->preset, (int)settings->batch, (int)settings->length,
           train_pool_threads(rank->pool), settings->recompute,
           (double)train_model_bytes(rank->layout, &rank->model->options) * 1e-6);
    printf("sgemm with OpenBLAS's %s kernels: %.1f GFLOP/s; loss %.4f, then %.4f\n",
           train_blas_kernels(), rate * 1e-9, warm_up.loss, timings[steps - 1].loss);
    qsort(timings, (size_t)steps, sizeof timings[0], by_total);
    print_result("median", settings, rank, &timings[steps / 2], rate);
    print_result("best  ", settings, rank, &timings[0], rate);
  }
  free(timings);
  return status;
}

int main(int argc, char **argv) {
  settings_t s = {
      .preset = "gpt2", .recompute = "none", .batch = 4, .length = 64, .threads = 0, .steps = 5};
  const base_option_t table[] = {
      {'m', "preset", BASE_OPTION_TEXT, &s.preset, "NAME",
       "the model: gpt2, gpt2-medium, tiny ..."},
      {'b', "batch", BASE_OPTION_INTEGER, &s.batch, "N", "sequences per step", 1, 1 << 16},
      {'l', "length", BASE_OPTION_INTEGER, &s.length, "N", "tokens of a sequence", 1, 1 << 16},
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N", "0: as many as cores", 0, 1024},
      {'r', "recompute", BASE_OPTION_TEXT, &s.recompute, "WHAT", "none, attention or block"},
      {'s', "steps", BASE_OPTION_INTEGER, &s.steps, "N", "timed, after one that is not", 1,
       1 << 20}};
  const base_command_t command = {
      .name = "step",
      .usage = "[options]",
      .summary = "Times training steps of a GPT-2 on one rank, as part of the sgemm rate.",
      .examples =
          "  step --batch 8 --length 256 --threads 2\n"
          "      GPT-2 with 124 M parameters on two threads\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  int first;
  bool helped = false;
  rank_t rank = {0};
  coll_status_t status = base_options_parse(&command, argc, argv, &first, &helped);
  if (helped) return 0;
  if (status == COLL_OK) status = run(&s, &rank);
  if (status != COLL_OK) fprintf(stderr, "step: %s\n", base_last_error());
  close_rank(&rank);
  return status == COLL_OK ? 0 : 1;
}
