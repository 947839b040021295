/*
 * Measures the time of a GPT-2 training step: forward, backward, gradient norm and AdamW, with
 * random weights and tokens, on one rank or on the ranks of a launcher. Also measures the rate of
 * single-precision matrix products that all ranks reach together.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "bench/step_limit.h"
#include "libtrain/common/random.h"
#include "libtrain/common/threads.h"
#include "libtrain/model/model.h"
#include "libtrain/ops/blas.h"
#include "libtrain/parallel/store.h"

typedef struct settings {
  const char *preset;
  int64_t batch, length, threads, steps, zero, bucket;
  int recompute;
  bool no_overlap, no_comm, bfloat16, limit, json;
} settings_t;

typedef struct rank {
  train_group_t group;
  train_layout_t *layout;
  train_pool_t *pool;
  train_model_t *model;
  train_store_t *store;
  int sequences, rows; /* of this rank */
  int32_t *tokens, *targets;
} rank_t;

/* reduce_ms: waiting for gradients, computing their norm and summing it over the ranks. */
typedef struct timing {
  double passes_ms, reduce_ms, update_ms, waited_ms, loss;
} timing_t;

static const char *const recomputed[] = {"none", "attention", "block", NULL};

static double ms_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-6;
}

/* ---- setup ---- */

static coll_status_t open_group(rank_t *rank) {
  coll_comm_t comm;
  coll_status_t status = coll_comm_create_env(&comm);
  if (status != COLL_OK) return base_fail(status, "%s", coll_last_error(NULL));
  status = train_group_init(comm, &rank->group);
  if (status != COLL_OK) coll_comm_destroy(comm);
  return status;
}

static coll_status_t open_model(const settings_t *settings, rank_t *rank) {
  train_model_config_t config;
  int ranks = rank->group.size;
  if (settings->batch % ranks != 0) {
    return base_fail(COLL_ERROR_INVALID, "%d ranks cannot divide a batch of %d: make it a multiple",
                     ranks, (int)settings->batch);
  }
  rank->sequences = (int)settings->batch / ranks;
  rank->rows = rank->sequences * (int)settings->length;
  COLL_TRY(train_preset_find(settings->preset, &config));
  config.context = (int32_t)settings->length;
  COLL_TRY(train_layout_create(&config, &rank->layout));
  int threads = settings->threads > 0 ? (int)settings->threads : train_threads_default(ranks);
  COLL_TRY(train_pool_create(threads, &rank->pool));
  const train_model_options_t options = {.sequences = rank->sequences,
                                         .recompute = (train_recompute_t)settings->recompute,
                                         .pool = rank->pool};
  return train_model_create(rank->layout, &options, &rank->model);
}

static coll_status_t open_store(const settings_t *settings, rank_t *rank) {
  const train_store_options_t options = {.stage = (int)settings->zero,
                                         .bucket_bytes = (size_t)settings->bucket,
                                         .comm = {.overlap = !settings->no_overlap,
                                                  .bfloat16 = settings->bfloat16,
                                                  .skip_communication = settings->no_comm},
                                         .pool = rank->pool};
  COLL_TRY(train_store_create(rank->layout, &rank->group, &options, &rank->store));
  return train_store_initialize(rank->store, 1);
}

/* The tokens of the global batch do not depend on the number of ranks. */
static coll_status_t draw_tokens(rank_t *rank) {
  void *memory;
  size_t rows = (size_t)rank->rows, first = rows * (size_t)rank->group.rank;
  uint64_t vocabulary = (uint64_t)rank->layout->config.vocabulary;
  COLL_TRY(base_alloc(2 * rows, sizeof(int32_t), "the tokens", &memory));
  rank->tokens = memory;
  rank->targets = rank->tokens + rows;
  for (size_t i = 0; i < rows; i++) {
    uint64_t draw = 2 * (first + i);
    rank->tokens[i] = (int32_t)train_random_below(1, TRAIN_RANDOM_BATCHES, draw, vocabulary);
    rank->targets[i] = (int32_t)train_random_below(1, TRAIN_RANDOM_BATCHES, draw + 1, vocabulary);
  }
  return COLL_OK;
}

static coll_status_t open_rank(const settings_t *settings, rank_t *rank) {
  coll_status_t status = open_model(settings, rank);
  if (status == COLL_OK) status = open_store(settings, rank);
  if (status == COLL_OK) status = draw_tokens(rank);
  return train_group_agree(&rank->group, status);
}

static void close_rank(rank_t *rank) {
  free(rank->tokens);
  train_store_destroy(rank->store);
  train_model_destroy(rank->model);
  train_pool_destroy(rank->pool);
  train_layout_destroy(rank->layout);
  if (rank->group.comm != NULL) coll_comm_destroy(rank->group.comm);
}

/* ---- a step ---- */

static coll_status_t pass(const settings_t *settings, rank_t *rank, double *loss) {
  const train_param_provider_t provider = train_store_provider(rank->store);
  float scale = 1.0f / ((float)settings->batch * (float)settings->length);
  train_store_begin(rank->store, 1);
  COLL_TRY(train_model_forward_backward(rank->model, &provider, rank->tokens, rank->targets,
                                        rank->sequences, (int)settings->length, scale, loss));
  *loss *= (double)scale;
  return COLL_OK;
}

static coll_status_t take_step(const settings_t *settings, rank_t *rank, uint64_t step,
                               timing_t *timing) {
  static const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  double sums[2]; /* loss; squared gradient norm */
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(pass(settings, rank, &sums[0]));
  timing->passes_ms = ms_since(start_ns);
  start_ns = base_clock_now_ns();
  COLL_TRY(train_store_finish(rank->store, &sums[1]));
  COLL_TRY(train_group_sum_doubles(&rank->group, sums, 2));
  timing->reduce_ms = ms_since(start_ns);
  start_ns = base_clock_now_ns();
  COLL_TRY(
      train_store_update(rank->store, &adamw, train_gradient_clip(sqrt(sums[1]), 1), 1e-4f, step));
  timing->update_ms = ms_since(start_ns);
  timing->waited_ms = (double)train_store_traffic(rank->store).waited_ns * 1e-6;
  timing->loss = sums[0];
  return COLL_OK;
}

static coll_status_t take_steps(const settings_t *settings, rank_t *rank, timing_t *timings) {
  for (int i = 0; i <= (int)settings->steps; i++) { /* the first step is not timed */
    COLL_TRY(take_step(settings, rank, (uint64_t)i + 1, &timings[i]));
  }
  return COLL_OK;
}

/* ---- output ---- */

static double total_of(const timing_t *timing) {
  return timing->passes_ms + timing->reduce_ms + timing->update_ms;
}

static int by_total(const void *a, const void *b) {
  double x = total_of(a), y = total_of(b);
  return (x > y) - (x < y);
}

static double flops_of(const settings_t *settings, const rank_t *rank) {
  return train_layout_flops_per_token(rank->layout, (int)settings->length) *
         (double)(settings->batch * settings->length);
}

static void print_setup(const settings_t *settings, const rank_t *rank, double sgemm) {
  printf("%s, ZeRO %d, batch %d of %d tokens, %d rank%s of %d thread%s, recompute %s\n",
         settings->preset, (int)settings->zero, (int)settings->batch, (int)settings->length,
         rank->group.size, rank->group.size > 1 ? "s" : "", train_pool_threads(rank->pool),
         train_pool_threads(rank->pool) > 1 ? "s" : "", recomputed[settings->recompute]);
  printf("%.1f MB of activations on each; sgemm with OpenBLAS's %s kernels: %.1f GFLOP/s\n",
         (double)train_model_bytes(rank->layout, &rank->model->options) * 1e-6,
         train_blas_kernels(), sgemm * 1e-9);
}

static void print_timing(const char *which, const settings_t *settings, const rank_t *rank,
                         const timing_t *timing, double sgemm) {
  double per_s = 1e3 / total_of(timing), flops = flops_of(settings, rank);
  printf("%s step %.1f ms (passes %.1f, norm %.1f, AdamW %.1f; of which waiting for ranks %.1f), ",
         which, total_of(timing), timing->passes_ms, timing->reduce_ms, timing->update_ms,
         timing->waited_ms);
  printf("%.0f tokens/s, %.1f GFLOP/s, %.1f %% of sgemm\n",
         per_s * (double)(settings->batch * settings->length), per_s * flops * 1e-9,
         100 * per_s * flops / sgemm);
}

static coll_status_t print_json(const settings_t *settings, const rank_t *rank,
                                const timing_t *timings, double sgemm) {
  json_t *steps = json_array();
  for (int i = 0; i < (int)settings->steps; i++) {
    const timing_t *t = &timings[i];
    json_array_append_new(steps, json_pack("{s:f, s:f, s:f, s:f, s:f}", "ms", total_of(t),
                                           "passes_ms", t->passes_ms, "reduce_ms", t->reduce_ms,
                                           "update_ms", t->update_ms, "waited_ms", t->waited_ms));
  }
  json_t *line =
      json_pack("{s:i, s:i, s:I, s:I, s:f, s:f, s:o}", "ranks", rank->group.size, "threads",
                train_pool_threads(rank->pool), "zero", (json_int_t)settings->zero, "tokens",
                (json_int_t)(settings->batch * settings->length), "flops", flops_of(settings, rank),
                "sgemm_flops_per_s", sgemm, "steps", steps);
  bool printed = line != NULL && json_dumpf(line, stdout, JSON_COMPACT) == 0;
  json_decref(line);
  if (printed && putchar('\n') != EOF) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the result");
}

static coll_status_t print_results(const settings_t *settings, const rank_t *rank,
                                   timing_t *timings, double sgemm) {
  int steps = (int)settings->steps;
  double first_loss = timings[0].loss, last_loss = timings[steps].loss;
  if (rank->group.rank != 0) return COLL_OK;
  if (settings->json) return print_json(settings, rank, timings + 1, sgemm);
  qsort(timings + 1, (size_t)steps, sizeof timings[0], by_total);
  print_setup(settings, rank, sgemm);
  printf("loss %.4f, then %.4f\n", first_loss, last_loss);
  print_timing("median", settings, rank, &timings[1 + steps / 2], sgemm);
  print_timing("best  ", settings, rank, &timings[1], sgemm);
  return COLL_OK;
}

static coll_status_t print_limit(const rank_t *rank, const timing_t *median) {
  double limit_ms;
  COLL_TRY(step_limit_print(rank->layout, rank->rows, rank->pool, &limit_ms));
  printf("the median step takes %.3f times as long\n", total_of(median) / limit_ms);
  return COLL_OK;
}

static coll_status_t check(const settings_t *settings, const rank_t *rank) {
  if (!settings->limit || (rank->group.size == 1 && !settings->json)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "--limit needs a single rank and no --json");
}

static coll_status_t measure(const settings_t *settings, rank_t *rank) {
  double sgemm[2];
  void *memory;
  COLL_TRY(open_group(rank));
  COLL_TRY(train_group_agree(&rank->group, check(settings, rank)));
  COLL_TRY(open_rank(settings, rank));
  COLL_TRY(base_alloc((size_t)settings->steps + 1, sizeof(timing_t), "the timings", &memory));
  timing_t *timings = memory;
  coll_status_t status = train_blas_rate(rank->pool, &sgemm[0]);
  if (status == COLL_OK) status = take_steps(settings, rank, timings);
  if (status == COLL_OK) status = train_blas_rate(rank->pool, &sgemm[1]);
  if (status == COLL_OK) status = train_group_sum_doubles(&rank->group, sgemm, 2);
  if (status == COLL_OK) {
    status = print_results(settings, rank, timings, sgemm[0] > sgemm[1] ? sgemm[0] : sgemm[1]);
  }
  if (status == COLL_OK && settings->limit) {
    status = print_limit(rank, &timings[1 + settings->steps / 2]);
  }
  free(timings);
  return status;
}

int main(int argc, char **argv) {
  settings_t s = {
      .preset = "gpt2", .batch = 4, .length = 64, .steps = 5, .bucket = TRAIN_BUCKET_BYTES};
  const base_option_t table[] = {
      {'m', "preset", BASE_OPTION_TEXT, &s.preset, "NAME",
       "the model: gpt2, gpt2-medium, tiny ..."},
      {'b', "batch", BASE_OPTION_INTEGER, &s.batch, "N", "sequences per step, over all ranks", 1,
       1 << 16},
      {'l', "length", BASE_OPTION_INTEGER, &s.length, "N", "tokens of a sequence", 1, 1 << 16},
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N",
       "threads per rank; 0: its share of the cores", 0, 1024},
      {'r', "recompute", BASE_OPTION_WORD, &s.recompute, "WHAT",
       "activations to recompute in backward", 0, 0, recomputed},
      {'z', "zero", BASE_OPTION_INTEGER, &s.zero, "STAGE", "ZeRO stage, 0 to 3", 0,
       TRAIN_STAGE_MAX},
      {0, "bucket", BASE_OPTION_BYTES, &s.bucket, "SIZE", "maximum size of one collective", 1,
       INT64_C(1) << 40},
      {0, "bf16", BASE_OPTION_FLAG, &s.bfloat16, NULL, "send gradients as bfloat16"},
      {0, "no-overlap", BASE_OPTION_FLAG, &s.no_overlap, NULL,
       "do not overlap communication with computation"},
      {0, "no-comm", BASE_OPTION_FLAG, &s.no_comm, NULL, "send no gradients"},
      {'s', "steps", BASE_OPTION_INTEGER, &s.steps, "N",
       "number of timed steps, after an untimed one", 1, 1 << 20},
      {0, "limit", BASE_OPTION_FLAG, &s.limit, NULL,
       "also measure a lower bound for a step, on one rank"},
      {0, "json", BASE_OPTION_FLAG, &s.json, NULL, "print a line of JSON, for bench/scaling"}};
  const base_command_t command = {
      .name = "step",
      .usage = "[options]",
      .summary =
          "Times training steps of a GPT-2 and compares them with the sgemm rate. bench/scaling "
          "uses\nit to compare ranks, threads and ZeRO stages.",
      .examples =
          "  step --batch 8 --length 256 --threads 2\n"
          "      GPT-2 with 124 M parameters on two threads\n"
          "  collrun -n 2 step --batch 8 --length 256 --zero 2\n"
          "      the same on two ranks, which partition gradients and moments\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  int first;
  bool help_printed = false;
  rank_t rank = {0};
  coll_status_t status = base_options_parse(&command, argc, argv, &first, &help_printed);
  if (help_printed) return 0;
  if (status == COLL_OK) status = measure(&s, &rank);
  if (status != COLL_OK && base_last_error()[0] != '\0') {
    fprintf(stderr, "step: %s\n", base_last_error());
  }
  close_rank(&rank);
  return status == COLL_OK ? 0 : 1;
}
