/* The table of ZeRO stages: memory and traffic of data parallelism on some numbers of ranks. */
#include <stdio.h>

#include "libtrain/parallel/memory.h"
#include "tools/gpt/footprint.h"
#include "tools/gpt/plan.h"

/* A row of the printed table. */
typedef struct row {
  int ranks, stage;
  train_memory_t memory;
  uint64_t sent;
} row_t;

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

coll_status_t gpt_plan_stages(const gpt_settings_t *settings, const train_layout_t *layout,
                              train_pool_t *pool, const int64_t ranks[], int count,
                              json_t **document) {
  json_t *rows = json_array();
  *document = json_pack("{s:O, s:I, s:o}", "options", settings->resolved, "parameters",
                        (json_int_t)layout->parameter_count, "rows", rows);
  for (int i = 0; i < count; i++) {
    for (int stage = 0; stage <= TRAIN_STAGE_MAX; stage++) {
      row_t row = {.ranks = (int)ranks[i], .stage = stage};
      COLL_TRY(predict(settings, layout, pool, &row));
      if (i == 0 && stage == 0) print_header(settings, layout);
      print_row(&row);
      json_array_append_new(rows, row_object(&row));
    }
  }
  fputs(formula, stdout);
  return COLL_OK;
}
