/* gpt plan: predicts memory and traffic of a training run per rank, from its options only. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "libtrain/parallel/memory.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/footprint.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/settings.h"

#define MAX_RANKS 4096
#define MAX_LIST 32
#define DIGITS 15 /* digits of numbers in JSON */

typedef struct plan {
  gpt_settings_t settings;
  const char *ranks_text, *json;
  int64_t ranks[MAX_LIST];
  int count;
  train_pool_t *pool; /* its threads determine the size of the scratch memory */
} plan_t;

/* A row of the printed table. */
typedef struct row {
  int ranks, stage;
  train_memory_t memory;
  uint64_t sent;
} row_t;

/* Parses a list such as "1,2,4". */
static coll_status_t read_ranks(const char *text, plan_t *plan) {
  char number[16];
  plan->count = 0;
  for (const char *at = text; plan->count < MAX_LIST; at++) {
    size_t length = strcspn(at, ",");
    snprintf(number, sizeof number, "%.*s", (int)length, at);
    if (!base_text_integer(number, 1, MAX_RANKS, &plan->ranks[plan->count++])) break;
    at += length;
    if (*at == '\0') return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "--ranks %s: give up to %d numbers from 1 to %d, such as 1,2,4", text, MAX_LIST,
                   MAX_RANKS);
}

/* 1, 2, 4 and 8, if they divide the batch. */
static void choose_ranks(plan_t *plan) {
  const gpt_settings_t *settings = &plan->settings;
  for (int ranks = 1; ranks <= 8; ranks *= 2) {
    bool splits = settings->batch % (ranks * settings->accumulate) == 0;
    if (splits || ranks == 1) plan->ranks[plan->count++] = ranks;
  }
}

static coll_status_t predict(const gpt_settings_t *settings, const train_layout_t *layout,
                             train_pool_t *pool, row_t *row) {
  train_store_options_t store = gpt_settings_store(settings);
  train_model_options_t model;
  store.stage = row->stage;
  COLL_TRY(gpt_settings_passes(settings, row->ranks, &model));
  model.pool = pool;
  COLL_TRY(train_memory_predict(layout, &model, &store, row->ranks, &row->memory));
  row->sent = train_traffic_predict(layout, &store, row->ranks, (int)settings->accumulate);
  return COLL_OK;
}

/* The element type of each kind of tensor. */
static void print_precision(train_precision_t precision) {
  printf("precision %s:", train_policy_of(precision)->name);
  for (int kind = 0; kind < TRAIN_KIND_STATISTICS; kind++) {
    train_dtype_t dtype = train_precision_stored(precision, (train_kind_t)kind);
    printf("%s %s %s", kind > 0 ? "," : "", train_kind_name((train_kind_t)kind),
           train_dtype_name(dtype));
  }
  printf("\n\n");
}

static void print_header(const gpt_settings_t *settings, const train_layout_t *layout) {
  const train_model_config_t *config = &layout->config;
  printf(
      "P = %.2f M parameters (%d layers, %d heads, width %d, context %d, %d tokens); batch %d in A "
      "= %d micro-batch%s\n",
      (double)layout->parameter_count * 1e-6, config->layers, config->heads, config->width,
      config->context, config->vocabulary, (int)settings->batch, (int)settings->accumulate,
      settings->accumulate > 1 ? "es" : "");
  print_precision((train_precision_t)settings->precision);
  printf("%52s %41s\n", "MB per rank", "MB");
  printf("%5s %6s %11s %8s %10s %8s %11s %12s %9s %11s\n", "ranks", "stage", "parameters",
         "weights", "gradients", "moments", "workspaces", "activations", "total", "sent/step");
}

static void print_row(const row_t *row) {
  const train_memory_t *m = &row->memory;
  printf("%5d %6d %11.1f %8.1f %10.1f %8.1f %11.1f %12.1f %9.1f %11.1f\n", row->ranks, row->stage,
         (double)m->parameters * 1e-6, (double)m->weights * 1e-6, (double)m->gradients * 1e-6,
         (double)m->moments * 1e-6, (double)m->workspaces * 1e-6, (double)m->activations * 1e-6,
         (double)gpt_memory_total(m) * 1e-6, (double)row->sent * 1e-6);
}

static const char formula[] =
    "\n"
    "bytes per rank of N, without workspaces and activations; sent as counted in the ZeRO paper\n"
    "stage  parameters  gradients  moments       sent/step\n"
    "    0         4 P        4 P      8 P             8 P  all-reduce\n"
    "    1         4 P        4 P    8 P/N         (4+w) P  reduce-scatter, all-gather\n"
    "    2         4 P      4 P/N    8 P/N       (4 A+w) P  reduce-scatter in each micro-batch\n"
    "    3       4 P/N      4 P/N    8 P/N    (4+2 w) A P  and two all-gathers in each\n"
    "w = 4 in float32. Otherwise w = 2, there are weights of 2 P, at stage 3 2 P/N, and from stage "
    "1\non the parameters need 4 P/N. In bf16-pure the parameters are the weights.\n";

static json_t *row_object(const row_t *row) {
  const train_memory_t *m = &row->memory;
  return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ranks", row->ranks,
                   "stage", row->stage, "parameter_bytes", (json_int_t)m->parameters,
                   "weight_bytes", (json_int_t)m->weights, "gradient_bytes",
                   (json_int_t)m->gradients, "moment_bytes", (json_int_t)m->moments,
                   "workspace_bytes", (json_int_t)m->workspaces, "activation_bytes",
                   (json_int_t)m->activations, "total_bytes", (json_int_t)gpt_memory_total(m),
                   "bytes_sent", (json_int_t)row->sent);
}

static coll_status_t write_json(const plan_t *plan, const train_layout_t *layout, json_t *rows) {
  if (plan->json == NULL) return COLL_OK;
  json_t *root = json_pack("{s:O, s:I, s:O}", "options", plan->settings.resolved, "parameters",
                           (json_int_t)layout->parameter_count, "rows", rows);
  int failed = json_dump_file(root, plan->json, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
  json_decref(root);
  if (failed == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", plan->json);
}

static coll_status_t show(const plan_t *plan, const train_layout_t *layout, json_t *rows) {
  for (int i = 0; i < plan->count; i++) {
    for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
      row_t row = {.ranks = (int)plan->ranks[i], .stage = stage};
      COLL_TRY(predict(&plan->settings, layout, plan->pool, &row));
      if (i == 0 && stage == 0) print_header(&plan->settings, layout);
      print_row(&row);
      json_array_append_new(rows, row_object(&row));
    }
  }
  fputs(formula, stdout);
  return write_json(plan, layout, rows);
}

static coll_status_t run(plan_t *plan) {
  train_tokenizer_t *tokenizer;
  train_layout_t *layout;
  if (plan->ranks_text == NULL) choose_ranks(plan);
  if (plan->ranks_text != NULL) COLL_TRY(read_ranks(plan->ranks_text, plan));
  for (int i = 0; i < plan->count; i++) {
    train_model_options_t passes;
    COLL_TRY(gpt_settings_passes(&plan->settings, (int)plan->ranks[i], &passes));
  }
  COLL_TRY(gpt_tokenizer_find(plan->settings.tokenizer, NULL, NULL, &tokenizer));
  const train_model_config_t config = gpt_settings_model(&plan->settings, tokenizer->tokens.count);
  train_tokenizer_destroy(tokenizer);
  COLL_TRY(train_layout_create(&config, &layout));
  json_t *rows = json_array();
  int threads = plan->settings.threads > 0 ? (int)plan->settings.threads : 1;
  coll_status_t status = train_pool_create(threads, &plan->pool);
  if (status == COLL_OK) status = show(plan, layout, rows);
  train_pool_destroy(plan->pool);
  json_decref(rows);
  train_layout_destroy(layout);
  return status;
}

int gpt_plan(int argc, char **argv) {
  plan_t plan = {0};
  const base_option_t extra[] = {
      {'n', "ranks", BASE_OPTION_TEXT, &plan.ranks_text, "LIST",
       "numbers of ranks; default 1,2,4,8 if they divide the batch"},
      {0, "json", BASE_OPTION_TEXT, &plan.json, "FILE", "also write the table as JSON"}};
  const gpt_settings_command_t command = {
      .name = "gpt plan",
      .usage = "[options of gpt train]",
      .summary =
          "Predicts memory and bytes sent of a training run on each rank, at every ZeRO stage,\n"
          "without allocating the memory.",
      .examples =
          "  gpt plan --preset gpt2 --batch 16 --context 256 --ranks 2,4\n"
          "      GPT-2 on two and on four ranks\n"
          "  gpt plan --config run.json --json plan.json\n"
          "      the run that gpt train --config run.json would make\n",
      .extra = extra,
      .extra_count = sizeof extra / sizeof extra[0]};
  train_group_t no_group = {0};
  bool done;
  coll_status_t status = gpt_settings_parse(&command, argc, argv, &plan.settings, &done);
  if (status == COLL_OK && !done) status = run(&plan);
  gpt_settings_free(&plan.settings);
  return gpt_finish(command.name, status, &no_group);
}
