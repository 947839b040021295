/* gpt plan: predicts training runs from their options only: memory and traffic of the ZeRO stages,
 * or the layouts of many ranks with their memory, traffic and time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/plan.h"

#define MAX_RANKS 4096
#define MAX_LIST 32
#define DIGITS 15 /* digits of numbers in JSON */
#define HOST_RANKS 8
#define ROWS 10

typedef struct plan {
  gpt_settings_t settings;
  gpt_plan_options_t options;
  const char *ranks_text, *json;
  int64_t ranks[MAX_LIST];
  int count;
  int64_t zero_table; /* 0: none */
} plan_t;

/* Parses a list such as "1,2,4". */
static coll_status_t read_ranks(const char *text, plan_t *plan) {
  char number[16];
  plan->count = 0;
  for (const char *at = text; plan->count < MAX_LIST; at++) {
    size_t length = strcspn(at, ",");
    base_text_word(at, length, number, sizeof number);
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

/* Options that only the list of layouts has ask for it. */
static bool lists_layouts(const plan_t *plan) {
  const gpt_plan_options_t *options = &plan->options;
  const gpt_mesh_settings_t *mesh = &plan->settings.mesh;
  const char *partition = plan->settings.partition, *costs = plan->settings.layer_costs;
  bool divides = mesh->ep > 0 || mesh->etp > 0 || mesh->order != NULL;
  divides = divides || partition != NULL || costs != NULL;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) divides = divides || mesh->size[axis] > 0;
  return divides || options->model || options->topology != NULL || options->memory > 0;
}

static coll_status_t write_json(const char *path, const json_t *document) {
  if (path == NULL) return COLL_OK;
  int failed = json_dump_file(document, path, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
  if (failed == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", path);
}

/* The threads of the pool determine the size of the scratch memory. */
static coll_status_t show(const plan_t *plan, const train_layout_t *model, train_pool_t *pool) {
  const gpt_settings_t *settings = &plan->settings;
  json_t *document = NULL;
  coll_status_t status =
      lists_layouts(plan)
          ? gpt_plan_layouts(settings, &plan->options, model, pool, (int)plan->ranks[0], &document)
          : gpt_plan_stages(settings, model, pool, plan->ranks, plan->count, &document);
  if (status == COLL_OK) status = write_json(plan->json, document);
  json_decref(document);
  return status;
}

static coll_status_t choose_or_read_ranks(plan_t *plan) {
  if (plan->ranks_text == NULL && !lists_layouts(plan)) choose_ranks(plan);
  if (plan->ranks_text != NULL) COLL_TRY(read_ranks(plan->ranks_text, plan));
  if (!lists_layouts(plan) || plan->count == 1) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "layouts are listed for one number of ranks: --ranks N");
}

static coll_status_t check_naive(const plan_t *plan) {
  if (!plan->settings.naive_dp) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "gpt plan has no --naive-dp: leave it out and see ZeRO stage 0, which is what "
                   "its rank 0 holds");
}

/* The batch must divide at every number of ranks. */
static coll_status_t check_batch(const plan_t *plan) {
  for (int i = 0; i < plan->count && !lists_layouts(plan); i++) {
    train_model_options_t passes;
    COLL_TRY(gpt_settings_passes(&plan->settings, (int)plan->ranks[i], &passes));
  }
  return COLL_OK;
}

static coll_status_t run(plan_t *plan) {
  train_tokenizer_t *tokenizer;
  train_layout_t *model;
  train_pool_t *pool;
  COLL_TRY(check_naive(plan));
  COLL_TRY(choose_or_read_ranks(plan));
  COLL_TRY(check_batch(plan));
  COLL_TRY(gpt_tokenizer_find(plan->settings.tokenizer, NULL, NULL, &tokenizer));
  const train_model_config_t config = gpt_settings_model(&plan->settings, tokenizer->tokens.count);
  train_tokenizer_destroy(tokenizer);
  COLL_TRY(train_layout_create(&config, &model));
  int threads = plan->settings.threads > 0 ? (int)plan->settings.threads : 1;
  coll_status_t status = train_pool_create(threads, &pool);
  if (status == COLL_OK) {
    status = show(plan, model, pool);
    train_pool_destroy(pool);
  }
  train_layout_destroy(model);
  return status;
}

/* ---- the command line ---- */

static const char summary[] =
    "Predicts a training run without allocating its memory. With --ranks alone: memory and bytes "
    "sent\nof each rank, at every ZeRO stage. With --model (which is --preset), --topology, "
    "--memory or a\nsize of the mesh: the layouts of that many ranks, fastest first, with memory, "
    "bytes sent, time\nand the options to run each; --explain says why. Options that are given as "
    "other than their\ndefault are kept: --tp, --cp, --pp, --dp, --ep, --zero, --accumulate, "
    "--recompute,\n--schedule, --partition, --layer-costs, --slices. TeraPipe is planned only if "
    "--schedule asks for it.";

static const char examples[] =
    "  gpt plan --model gpt2-xl --ranks 64 --batch 512 --topology machine.json --memory 80G\n"
    "      layouts for the hosts of a file of colltopo (colltopo make dgx-h100 --hosts 8 --fabric "
    "rail)\n"
    "  gpt plan --model gpt2-large --ranks 16 --tp 4 --precision bf16 --explain\n"
    "      layouts with 4 tensor ranks, and why the first is the fastest\n"
    "  gpt plan --preset gpt2 --batch 16 --context 256 --ranks 2,4\n"
    "      GPT-2 on two and on four ranks, at each ZeRO stage\n"
    "  gpt plan --config run.json --json plan.json\n"
    "      the run that gpt train --config run.json would make\n"
    "  gpt plan --zero-table 1\n"
    "      memory per device of 7.5 B, 128 B and 1 T parameters, as in the ZeRO paper\n";

/* --model NAME is --preset NAME. words[argc] receives the words of the command line. */
static void replace_model(int argc, char **argv, char **words, plan_t *plan) {
  static char preset[] = "--preset";
  for (int i = 0; i < argc; i++) {
    bool is_model = i > 0 && strcmp(argv[i], "--model") == 0;
    words[i] = is_model ? preset : argv[i];
    plan->options.model = plan->options.model || is_model;
  }
}

static coll_status_t parse(int argc, char **argv, plan_t *plan, bool *done) {
  gpt_plan_options_t *options = &plan->options;
  const base_option_t extra[] = {
      {'n', "ranks", BASE_OPTION_TEXT, &plan->ranks_text, "LIST",
       "numbers of ranks; default 1,2,4,8 if they divide the batch"},
      {0, "json", BASE_OPTION_TEXT, &plan->json, "FILE", "also write the results as JSON"},
      {0, "topology", BASE_OPTION_TEXT, &options->topology, "FILE",
       "plan for these machines: JSON of colltopo, or XML of NCCL or hwloc"},
      {0, "host-ranks", BASE_OPTION_INTEGER, &options->host_ranks, "N",
       "without --topology: ranks on each host", 1, MAX_RANKS},
      {0, "memory", BASE_OPTION_BYTES, &options->memory, "SIZE",
       "of a rank; 0: that of the topology's GPUs, or no limit"},
      {0, "tflops", BASE_OPTION_NUMBER, &options->tflops, "X",
       "TFLOP/s of a rank in matrix products; 0: half the data sheet's of the topology's GPUs"},
      {0, "memory-bandwidth", BASE_OPTION_NUMBER, &options->memory_bandwidth, "X",
       "GB/s that a rank reads and writes in other operators and updates; 0: 80 % of the data "
       "sheet's of the topology's GPUs, or a part of --tflops"},
      {0, "host-bandwidth", BASE_OPTION_NUMBER, &options->host_bandwidth, "X",
       "GB/s that a rank sends inside a host; 0: that of the topology"},
      {0, "network-bandwidth", BASE_OPTION_NUMBER, &options->network_bandwidth, "X",
       "GB/s that a rank sends between hosts; 0: that of the topology"},
      {0, "rows", BASE_OPTION_INTEGER, &options->rows, "N", "layouts to print", 1, 1 << 20},
      {0, "zero-table", BASE_OPTION_INTEGER, &plan->zero_table, "N",
       "print table 1 or 2 of the ZeRO paper instead", 1, 2}};
  const gpt_settings_command_t command = {.name = "gpt plan",
                                          .usage = "[options of gpt train]",
                                          .summary = summary,
                                          .examples = examples,
                                          .extra = extra,
                                          .extra_count = sizeof extra / sizeof extra[0]};
  return gpt_settings_parse(&command, argc, argv, &plan->settings, done);
}

int gpt_plan(int argc, char **argv) {
  plan_t plan = {.options = {.host_ranks = HOST_RANKS, .rows = ROWS}};
  bool done = false;
  void *memory;
  coll_status_t status = base_alloc((size_t)argc + 1, sizeof(char *), "the options", &memory);
  char **words = status == COLL_OK ? memory : NULL;
  if (status == COLL_OK) {
    replace_model(argc, argv, words, &plan);
    status = parse(argc, words, &plan, &done);
  }
  if (status == COLL_OK && !done && plan.zero_table > 0) {
    gpt_plan_zero_table((int)plan.zero_table);
  } else if (status == COLL_OK && !done) {
    status = base_tool_input(run(&plan));
  }
  gpt_settings_free(&plan.settings);
  free(words);
  return gpt_finish("gpt plan", status, NULL);
}
