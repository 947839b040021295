/*
 * Measures the time of a GPT-2 training step: forward, backward, gradient norm and AdamW, with
 * random weights, on one rank or on the ranks of a launcher. Also measures the rate of matrix
 * products that all ranks reach together.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/step_limit.h"
#include "bench/step_rank.h"
#include "libtrain/files/model_file.h"

typedef struct settings {
  step_settings_t step;
  const char *save; /* NULL: the weights are not saved */
  bool limit, json, serve;
} settings_t;

static const char *const recomputed[] = {"none", "attention", "block", NULL};

static train_dtype_t product_dtype(const settings_t *settings) {
  return train_precision_stored((train_precision_t)settings->step.precision, TRAIN_KIND_WEIGHTS);
}

static coll_status_t take_steps(const settings_t *settings, step_rank_t *rank,
                                step_timing_t *timings) {
  for (int i = 0; i <= (int)settings->step.steps; i++) { /* the first step is not timed */
    COLL_TRY(step_rank_take(&settings->step, rank, (uint64_t)i + 1, &timings[i]));
  }
  return COLL_OK;
}

/* Saves the initial weights. */
static coll_status_t save_weights(const char *path, step_rank_t *rank) {
  const train_format_t *format;
  const train_metadata_t metadata = {.config = rank->layout->config};
  COLL_TRY(train_format_for_path(path, TRAIN_FLOAT32, &format));
  const train_flat_t flat = train_store_flat(rank->store);
  return format->write(path, &metadata, &flat, TRAIN_FLOAT32);
}

/* ---- output ---- */

static int by_total(const void *a, const void *b) {
  double x = step_total_ms(a), y = step_total_ms(b);
  return (x > y) - (x < y);
}

static double flops_of(const settings_t *settings, const step_rank_t *rank) {
  return train_layout_flops_per_token(rank->layout, (int)settings->step.length) *
         (double)(settings->step.batch * settings->step.length);
}

static void print_setup(const settings_t *settings, const step_rank_t *rank, double rate) {
  const step_settings_t *s = &settings->step;
  int threads = train_pool_threads(rank->pool);
  printf("%s, %s, ZeRO %d, batch %d of %d tokens, %d rank%s of %d thread%s, recompute %s\n",
         s->preset, train_precision_names[s->precision], (int)s->zero, (int)s->batch,
         (int)s->length, rank->group.size, rank->group.size > 1 ? "s" : "", threads,
         threads > 1 ? "s" : "", recomputed[s->recompute]);
  printf("%.1f MB of activations on each; rate of a large %s product: %.1f GFLOP/s\n",
         (double)train_model_bytes(rank->layout, &rank->model->options) * 1e-6,
         train_dtype_name(product_dtype(settings)), rate * 1e-9);
}

static void print_timing(const char *which, const settings_t *settings, const step_rank_t *rank,
                         const step_timing_t *timing, double rate) {
  double ms = step_total_ms(timing), per_s = 1e3 / ms, flops = flops_of(settings, rank);
  printf("%s step %.1f ms (passes %.1f, norm %.1f, AdamW %.1f; of which waiting for ranks %.1f), ",
         which, ms, timing->passes_ms, timing->reduce_ms, timing->update_ms, timing->waited_ms);
  printf("%.0f tokens/s, %.1f GFLOP/s, %.3f times a large product's rate\n",
         per_s * (double)(settings->step.batch * settings->step.length), per_s * flops * 1e-9,
         per_s * flops / rate);
}

/* Prints and releases it. */
static coll_status_t print_line(json_t *line) {
  bool printed = line != NULL && json_dumpf(line, stdout, JSON_COMPACT) == 0;
  json_decref(line);
  if (printed && putchar('\n') != EOF && fflush(stdout) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the result");
}

static json_t *describe(const settings_t *settings, const step_rank_t *rank) {
  const step_settings_t *s = &settings->step;
  const train_model_config_t *config = &rank->layout->config;
  return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:f, s:{s:i, s:i, s:i, s:i, s:i}}", "preset",
                   s->preset, "precision", train_precision_names[s->precision], "ranks",
                   rank->group.size, "threads", train_pool_threads(rank->pool), "zero",
                   (json_int_t)s->zero, "tokens", (json_int_t)(s->batch * s->length), "flops",
                   flops_of(settings, rank), "config", "vocabulary", config->vocabulary, "context",
                   config->context, "layers", config->layers, "heads", config->heads, "width",
                   config->width);
}

static coll_status_t print_json(const settings_t *settings, const step_rank_t *rank,
                                const step_timing_t *timings, double rate) {
  json_t *steps = json_array(), *losses = json_array(), *line = describe(settings, rank);
  for (int i = 0; i <= (int)settings->step.steps; i++) {
    const step_timing_t *t = &timings[i];
    json_array_append_new(losses, json_real(t->loss));
    if (i == 0) continue;
    json_array_append_new(steps, json_pack("{s:f, s:f, s:f, s:f, s:f}", "ms", step_total_ms(t),
                                           "passes_ms", t->passes_ms, "reduce_ms", t->reduce_ms,
                                           "update_ms", t->update_ms, "waited_ms", t->waited_ms));
  }
  json_object_set_new(line, "product_flops_per_s", json_real(rate));
  json_object_set_new(line, "steps", steps);
  json_object_set_new(line, "losses", losses);
  return print_line(line);
}

static coll_status_t print_limit(const settings_t *settings, const step_rank_t *rank,
                                 const step_timing_t *median) {
  double limit_ms;
  COLL_TRY(step_limit_measure(rank->layout, rank->rows, rank->pool,
                              (train_precision_t)settings->step.precision, stdout, &limit_ms));
  printf("the median step takes %.3f times as long as these\n", step_total_ms(median) / limit_ms);
  return COLL_OK;
}

static coll_status_t print_results(const settings_t *settings, const step_rank_t *rank,
                                   step_timing_t *timings, double rate) {
  int steps = (int)settings->step.steps;
  double first_loss = timings[0].loss, last_loss = timings[steps].loss;
  if (rank->group.rank != 0) return COLL_OK;
  for (int i = 1; i <= steps; i++) { /* the machine may have been busy while it was measured */
    rate = fmax(rate, 1e3 / step_total_ms(&timings[i]) * flops_of(settings, rank));
  }
  if (settings->json) return print_json(settings, rank, timings, rate);
  qsort(timings + 1, (size_t)steps, sizeof timings[0], by_total);
  print_setup(settings, rank, rate);
  printf("loss %.4f, then %.4f\n", first_loss, last_loss);
  print_timing("median", settings, rank, &timings[1 + steps / 2], rate);
  print_timing("best  ", settings, rank, &timings[1], rate);
  return settings->limit ? print_limit(settings, rank, &timings[1 + steps / 2]) : COLL_OK;
}

/* ---- modes ---- */

static coll_status_t time_steps(const settings_t *settings, step_rank_t *rank) {
  double rates[2];
  void *memory;
  COLL_TRY(
      base_alloc((size_t)settings->step.steps + 1, sizeof(step_timing_t), "the timings", &memory));
  step_timing_t *timings = memory;
  coll_status_t status = step_product_rate(rank->pool, product_dtype(settings), &rates[0]);
  if (status == COLL_OK) status = take_steps(settings, rank, timings);
  if (status == COLL_OK) {
    status = step_product_rate(rank->pool, product_dtype(settings), &rates[1]);
  }
  if (status == COLL_OK) status = train_group_sum_doubles(&rank->group, rates, 2);
  if (status == COLL_OK) {
    status = print_results(settings, rank, timings, rates[0] > rates[1] ? rates[0] : rates[1]);
  }
  free(timings);
  return status;
}

static coll_status_t serve_steps(const settings_t *settings, step_rank_t *rank, int64_t count,
                                 uint64_t *step) {
  json_t *times = json_array();
  coll_status_t status = COLL_OK;
  for (int64_t i = 0; i < count && status == COLL_OK; i++) {
    step_timing_t timing;
    status = step_rank_take(&settings->step, rank, ++*step, &timing);
    if (status == COLL_OK) json_array_append_new(times, json_real(step_total_ms(&timing)));
  }
  if (status == COLL_OK) return print_line(json_pack("{s:o}", "ms", times));
  json_decref(times);
  return status;
}

/* Answers each line of standard input, "steps N" or "limit", with a line of JSON. */
static coll_status_t serve(const settings_t *settings, step_rank_t *rank) {
  char line[64];
  int64_t count;
  double limit_ms;
  uint64_t step = 1;
  step_timing_t untimed;
  COLL_TRY(step_rank_take(&settings->step, rank, step, &untimed));
  COLL_TRY(print_line(describe(settings, rank)));
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "limit") == 0) {
      COLL_TRY(step_limit_measure(rank->layout, rank->rows, rank->pool,
                                  (train_precision_t)settings->step.precision, NULL, &limit_ms));
      COLL_TRY(print_line(json_pack("{s:f}", "limit_ms", limit_ms)));
    } else if (strncmp(line, "steps ", 6) == 0 &&
               base_text_integer(line + 6, 1, INT32_MAX, &count)) {
      COLL_TRY(serve_steps(settings, rank, count, &step));
    } else {
      return base_fail(COLL_ERROR_INVALID, "unknown request: give 'steps N' or 'limit'");
    }
  }
  return COLL_OK;
}

static coll_status_t check(const settings_t *settings, const step_rank_t *rank) {
  if (settings->limit && (rank->group.size > 1 || settings->json)) {
    return base_fail(COLL_ERROR_INVALID, "--limit needs a single rank and no --json");
  }
  if (!settings->serve || (rank->group.size == 1 && !settings->json && !settings->limit)) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "--serve needs a single rank, no --json and no --limit");
}

static coll_status_t measure(const settings_t *settings, step_rank_t *rank) {
  COLL_TRY(step_rank_join(rank));
  COLL_TRY(train_group_agree(&rank->group, check(settings, rank)));
  COLL_TRY(step_rank_open(&settings->step, rank));
  if (settings->save != NULL) COLL_TRY(save_weights(settings->save, rank));
  return settings->serve ? serve(settings, rank) : time_steps(settings, rank);
}

static int run_tool(int argc, char **argv) {
  settings_t settings = {
      .step = {
          .preset = "gpt2", .batch = 4, .length = 64, .steps = 5, .bucket = TRAIN_BUCKET_BYTES}};
  step_settings_t *s = &settings.step;
  const base_option_t table[] = {
      {'m', "preset", BASE_OPTION_TEXT, &s->preset, "NAME",
       "the model: gpt2, gpt2-medium, tiny ..."},
      {'b', "batch", BASE_OPTION_INTEGER, &s->batch, "N", "sequences per step, over all ranks", 1,
       1 << 16},
      {'l', "length", BASE_OPTION_INTEGER, &s->length, "N", "tokens of a sequence", 1, 1 << 16},
      {'j', "threads", BASE_OPTION_INTEGER, &s->threads, "N",
       "threads per rank; 0: its share of the cores", 0, 1024},
      {'p', "precision", BASE_OPTION_WORD, &s->precision, "NAME",
       "types of weights and activations", 0, 0, train_precision_names},
      {'r', "recompute", BASE_OPTION_WORD, &s->recompute, "WHAT",
       "activations to recompute in backward", 0, 0, recomputed},
      {'z', "zero", BASE_OPTION_INTEGER, &s->zero, "STAGE", "ZeRO stage, 0 to 3", 0,
       TRAIN_STAGE_MAX},
      {0, "bucket", BASE_OPTION_BYTES, &s->bucket, "SIZE", "maximum size of one collective", 1,
       INT64_C(1) << 40},
      {0, "bf16", BASE_OPTION_FLAG, &s->bfloat16, NULL, "send gradients as bfloat16"},
      {0, "no-overlap", BASE_OPTION_FLAG, &s->no_overlap, NULL,
       "do not overlap communication with computation"},
      {0, "no-comm", BASE_OPTION_FLAG, &s->no_comm, NULL, "send no gradients"},
      {'s', "steps", BASE_OPTION_INTEGER, &s->steps, "N",
       "number of timed steps, after an untimed one", 1, 1 << 20},
      {0, "text", BASE_OPTION_TEXT, &s->text, "FILE",
       "train on the bytes of this file instead of random tokens"},
      {0, "save", BASE_OPTION_TEXT, &settings.save, "PATH",
       "save the initial weights: a name as for 'gpt convert'"},
      {0, "limit", BASE_OPTION_FLAG, &settings.limit, NULL,
       "also measure the products and the memory traffic of a step alone, on one rank"},
      {0, "json", BASE_OPTION_FLAG, &settings.json, NULL,
       "print a line of JSON, for bench/scaling"},
      {0, "serve", BASE_OPTION_FLAG, &settings.serve, NULL,
       "answer 'steps N' and 'limit' on standard input, for bench/train-compare"}};
  const base_command_t command = {
      .name = "step",
      .usage = "[options]",
      .summary =
          "Times training steps of a GPT-2 and compares them with the rate of matrix "
          "products.\nbench/scaling uses it to compare ranks, threads and ZeRO stages.",
      .examples =
          "  step --batch 8 --length 256 --threads 2\n"
          "      GPT-2 with 124 M parameters on two threads\n"
          "  step --batch 4 --length 1024 --precision bf16 --limit\n"
          "      in bfloat16, and the time that its matrix products and memory traffic need\n"
          "  collrun -n 2 step --batch 8 --length 256 --zero 2\n"
          "      the same on two ranks, which partition gradients and moments\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  int first;
  bool help_printed = false;
  step_rank_t rank = {0};
  coll_status_t status = base_options_parse(&command, argc, argv, &first, &help_printed);
  if (help_printed) return 0;
  if (status == COLL_OK) status = base_tool_input(measure(&settings, &rank));
  int code = status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail("step", status);
  step_rank_close(&rank);
  return code;
}

int main(int argc, char **argv) {
  return base_tool_main("step", run_tool, argc, argv);
}
