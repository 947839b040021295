/*
 * The option table refers to one settings object. The command line is parsed twice: first to find
 * the configuration file, presets and checkpoint, then to apply everything in ascending priority.
 */
#include "tools/gpt/settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gpt/checkpoint_options.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/partition.h"
#include "tools/gpt/slices.h"

#define DEFAULT_SECONDS 60.0
#define MAX_OPTIONS 128
#define SUMMARY_BYTES 2048
#define DIGITS 15 /* digits of printed numbers; a number typed by the user is printed unchanged */

static const gpt_settings_t defaults = {.data = GPT_DEFAULT_DATA,
                                        .out = GPT_DEFAULT_CHECKPOINT,
                                        .lr = 4e-3,
                                        .warmup = 0.05,
                                        .weight_decay = 0.1,
                                        .clip = 1.0,
                                        .layers = 2,
                                        .heads = 4,
                                        .width = 128,
                                        .context = 64,
                                        .top_k = 1,
                                        .moe_every = 1,
                                        .capacity = 1.25,
                                        .aux_loss = 0.01,
                                        .z_loss = 0.001,
                                        .batch = 16,
                                        .accumulate = 1,
                                        .schedule = TRAIN_SCHEDULE_1F1B,
                                        .virtual_stages = 1,
                                        .tp_overlap = "off",
                                        .bucket = TRAIN_BUCKET_BYTES,
                                        .seed = 1,
                                        .evaluations = 4,
                                        .evaluation_tokens = 128 << 10};

/* ---- options by subject ---- */

typedef struct table {
  base_option_t options[MAX_OPTIONS];
  size_t count;
  char summary[SUMMARY_BYTES]; /* of the help */
} table_t;

static void add(table_t *table, const base_option_t *options, size_t count) {
  if (count == 0) return;
  assert(table->count + count <= MAX_OPTIONS);
  memcpy(table->options + table->count, options, count * sizeof *options);
  table->count += count;
}

static void add_files(gpt_settings_t *s, table_t *table) {
  const base_option_t options[] = {
      {'d', "data", BASE_OPTION_TEXT, &s->data, "PATH",
       "text file, folder tree of text files, or token shards"},
      {0, "tokenizer", BASE_OPTION_TEXT, &s->tokenizer, "FILE",
       "tokenizer.json, or a folder with one; default: bytes"},
      {'o', "out", BASE_OPTION_TEXT, &s->out, "FILE", "where to save the checkpoint"},
      {0, "resume", BASE_OPTION_TEXT, &s->resume, "FILE",
       "resume from this checkpoint, with its model and settings"},
      {0, "log", BASE_OPTION_TEXT, &s->log, "FILE",
       "write a log in JSON Lines format, with a record per step"},
      {0, "tensorboard", BASE_OPTION_TEXT, &s->tensorboard, "DIR",
       "write event files for TensorBoard to this folder"},
      {0, "curve", BASE_OPTION_TEXT, &s->curve, "FILE", "draw the loss curve as SVG"},
      {0, "trace", BASE_OPTION_TEXT, &s->trace, "FILE",
       "at the end write what each rank did and when, for ui.perfetto.dev"}};
  add(table, options, sizeof options / sizeof options[0]);
}

static void add_model(gpt_settings_t *s, table_t *table) {
  const base_option_t options[] = {
      {0, "preset", BASE_OPTION_TEXT, &s->preset, "NAME",
       "a model's sizes by name: gpt2, gpt2-medium ..."},
      {0, "vocabulary", BASE_OPTION_INTEGER, &s->vocabulary, "N",
       "size of the vocabulary; 0: the tokenizer's", 0, 1 << 20},
      {'l', "layers", BASE_OPTION_INTEGER, &s->layers, "N", "transformer blocks", 1, 1024},
      {0, "heads", BASE_OPTION_INTEGER, &s->heads, "N", "attention heads; divides width", 1, 1024},
      {'w', "width", BASE_OPTION_INTEGER, &s->width, "N", "embedding width", 1, 32768},
      {'c', "context", BASE_OPTION_INTEGER, &s->context, "N", "context length in tokens", 1, 65536},
      {0, "untied", BASE_OPTION_FLAG, &s->untied, NULL,
       "the classifier has weights of its own, not those of the token table"}};
  add(table, options, sizeof options / sizeof options[0]);
}

static void add_experts(gpt_settings_t *s, table_t *table) {
  const base_option_t options[] = {
      {0, "experts", BASE_OPTION_INTEGER, &s->experts, "N",
       "mixture of experts in place of MLPs: experts of a block; 0: none", 0, 1024},
      {0, "top-k", BASE_OPTION_INTEGER, &s->top_k, "K", "experts of a token: 1 or 2", 1, 2},
      {0, "moe-every", BASE_OPTION_INTEGER, &s->moe_every, "N", "every Nth block has experts", 1,
       1024},
      {0, "shared-expert", BASE_OPTION_FLAG, &s->shared_expert, NULL,
       "blocks with experts keep their MLP, for all tokens"},
      {0, "capacity", BASE_OPTION_NUMBER, &s->capacity, "X",
       "capacity factor: tokens of a sequence beyond it are dropped; 0: none are"},
      {0, "aux-loss", BASE_OPTION_NUMBER, &s->aux_loss, "X", "factor of the load-balance loss"},
      {0, "z-loss", BASE_OPTION_NUMBER, &s->z_loss, "X", "factor of the router's z loss"}};
  add(table, options, sizeof options / sizeof options[0]);
}

static void add_training(gpt_settings_t *s, table_t *table) {
  static const char *const norms[] = {"global", "stage", NULL};
  const base_option_t options[] = {
      {'t', "seconds", BASE_OPTION_NUMBER, &s->seconds, "S",
       "train this long; 60 if --steps is not given either"},
      {'s', "steps", BASE_OPTION_INTEGER, &s->steps, "N", "train up to this step; 0: no limit"},
      {'b', "batch", BASE_OPTION_INTEGER, &s->batch, "N",
       "sequences per step, over all ranks together", 1, 1 << 20},
      {0, "lr", BASE_OPTION_NUMBER, &s->lr, "X", "peak learning rate"},
      {0, "warmup", BASE_OPTION_NUMBER, &s->warmup, "X",
       "fraction of the run with a rising learning rate"},
      {0, "weight-decay", BASE_OPTION_NUMBER, &s->weight_decay, "X", "of AdamW, on matrices only"},
      {0, "clip", BASE_OPTION_NUMBER, &s->clip, "X", "maximum gradient norm"},
      {0, "clip-by", BASE_OPTION_WORD, &s->clip_by, "WHAT",
       "norm that is clipped: global or, for schedules pipedream and pipedream-2bw, stage", 0, 0,
       norms},
      {0, "precision", BASE_OPTION_WORD, &s->precision, "NAME",
       "element types, see above: float32, bf16, fp16, bf16-pure", 0, 0, train_precision_names},
      {0, "seed", BASE_OPTION_INTEGER, &s->seed, "N",
       "of the initial weights and the order of the data"},
      {0, "evals", BASE_OPTION_INTEGER, &s->evaluations, "N",
       "evaluations (and checkpoints), evenly distributed", 1, 1000},
      {0, "eval-tokens", BASE_OPTION_INTEGER, &s->evaluation_tokens, "N",
       "held-out tokens per evaluation", 1, INT64_C(1) << 40}};
  add(table, options, sizeof options / sizeof options[0]);
}

static void add_parallel(gpt_settings_t *s, table_t *table) {
  static const char *const comm_dtypes[] = {"float32", "bf16", NULL};
  static const char *const recomputed[] = {"none", "attention", "block", NULL};
  const base_option_t options[] = {
      {0, "zero", BASE_OPTION_INTEGER, &s->zero, "STAGE",
       "ZeRO stage: partition 1: moments; 2: + gradients; 3: + parameters", 0, TRAIN_STAGE_MAX},
      {0, "naive-dp", BASE_OPTION_FLAG, &s->naive_dp, NULL,
       "naive data parallelism: rank 0 alone updates, and broadcasts the weights"},
      {0, "accumulate", BASE_OPTION_INTEGER, &s->accumulate, "N",
       "micro-batches per step on each rank", 1, 1 << 20},
      {0, "recompute", BASE_OPTION_WORD, &s->recompute, "WHAT",
       "activations to recompute in backward: none, attention, block", 0, 0, recomputed},
      {0, "bucket", BASE_OPTION_BYTES, &s->bucket, "SIZE", "maximum size of one collective", 1,
       INT64_C(1) << 40},
      {0, "comm-dtype", BASE_OPTION_WORD, &s->comm_dtype, "TYPE",
       "type in which gradients, at --zero 3 also parameters, are sent: float32, bf16", 0, 0,
       comm_dtypes},
      {0, "no-overlap", BASE_OPTION_FLAG, &s->no_overlap, NULL,
       "do not overlap communication with computation"},
      {0, "no-comm", BASE_OPTION_FLAG, &s->no_comm, NULL,
       "send nothing, to measure computation; results are invalid"},
      {0, "explain", BASE_OPTION_FLAG, &s->explain, NULL,
       "at the end show which library multiplied the matrices, and how fast"}};
  add(table, options, sizeof options / sizeof options[0]);
}

void gpt_settings_kinds(gpt_settings_t *settings, base_option_t options[GPT_KIND_OPTIONS]) {
  static const char *const context_kinds[] = {"ring", "ulysses", NULL};
  const base_option_t kinds[GPT_KIND_OPTIONS] = {
      {0, "sp", BASE_OPTION_FLAG, &settings->sequence_parallel, NULL,
       "sequence parallelism: --tp divides the rows of layernorms and residuals, too"},
      {0, "cp-kind", BASE_OPTION_WORD, &settings->context_kind, "KIND",
       "how --cp attends: ring, or ulysses: all-to-all over heads", 0, 0, context_kinds}};
  memcpy(options, kinds, sizeof kinds);
}

static void add_mesh(gpt_settings_t *s, table_t *table) {
  base_option_t kinds[GPT_KIND_OPTIONS];
  const base_option_t pipelines[] = {
      {0, "tp-overlap", BASE_OPTION_TEXT, &s->tp_overlap, "HOW",
       "collectives of --tp during products: off; 1: in backward; N: and in N chunks; auto: "
       "measured"},
      {0, "schedule", BASE_OPTION_WORD, &s->schedule, "KIND",
       "of --pp: 1f1b, gpipe, interleaved, naive, zb-h1, pipedream, pipedream-2bw, terapipe", 0, 0,
       train_schedule_names},
      {0, "virtual-stages", BASE_OPTION_INTEGER, &s->virtual_stages, "N",
       "chunks of layers on each stage, with --schedule interleaved", 1, TRAIN_CHUNKS_MAX},
      {0, "partition", BASE_OPTION_TEXT, &s->partition, "HOW",
       "layers of each stage of --pp: even; profile: by times measured at the start; or 3,4*5,2"},
      {0, "layer-costs", BASE_OPTION_TEXT, &s->layer_costs, "LIST",
       "instead: times of embedding, blocks and head, to cut them into stages, such as 0.5,12*1,3"},
      {0, "slices", BASE_OPTION_TEXT, &s->slices, "N",
       "of a sequence with --schedule terapipe; default 4; or tokens of each, such as 12,10,10"}};
  base_option_t options[GPT_MESH_OPTIONS + 2] = {
      {0, "show-mesh", BASE_OPTION_FLAG, &s->mesh.show, NULL,
       "print the groups of ranks before training"},
      {0, "draw-mesh", BASE_OPTION_TEXT, &s->mesh.draw, "FILE", "draw them as SVG"}};
  gpt_mesh_options(&s->mesh, options + 2);
  gpt_settings_kinds(s, kinds);
  add(table, options, sizeof options / sizeof options[0]);
  add(table, kinds, sizeof kinds / sizeof kinds[0]);
  add(table, pipelines, sizeof pipelines / sizeof pipelines[0]);
}

static void add_machine(gpt_settings_t *s, table_t *table) {
  const base_option_t options[] = {{'j', "threads", BASE_OPTION_INTEGER, &s->threads, "N",
                                    "threads per rank; 0: its share of the cores", 0, 1024}};
  add(table, options, sizeof options / sizeof options[0]);
}

static void add_configuration(gpt_settings_t *s, table_t *table) {
  const base_option_t options[] = {
      {0, "config", BASE_OPTION_TEXT, &s->config_path, "FILE",
       "read options from a JSON object; the command line overrides it"},
      {0, "print-config", BASE_OPTION_FLAG, &s->print_config, NULL,
       "print the options as a JSON object and exit"}};
  add(table, options, sizeof options / sizeof options[0]);
}

/* Appends a list of the precisions to the command's summary. */
static void describe_precisions(const char *summary, table_t *table) {
  int used = snprintf(table->summary, SUMMARY_BYTES, "%s\n\nPrecisions:", summary);
  for (int i = 0; i < TRAIN_PRECISIONS && used < SUMMARY_BYTES; i++) {
    const train_policy_t *policy = train_policy_of((train_precision_t)i);
    used += snprintf(table->summary + used, (size_t)(SUMMARY_BYTES - used), "\n  %-9s  %s",
                     policy->name, policy->about);
  }
}

base_option_t gpt_settings_forward_precision(int *precision) {
  static const char *names[TRAIN_PRECISION_BF16_PURE + 1];
  for (int i = 0; i < TRAIN_PRECISION_BF16_PURE; i++) names[i] = train_precision_names[i];
  return (base_option_t){.name = "precision",
                         .kind = BASE_OPTION_WORD,
                         .value = precision,
                         .value_name = "NAME",
                         .help = "type of weights and activations: float32, bf16, fp16",
                         .words = names};
}

/* ---- parsing ---- */

static coll_status_t apply_preset(const char *name, gpt_settings_t *settings) {
  train_model_config_t sizes;
  if (name == NULL) return COLL_OK;
  COLL_TRY(train_preset_find(name, &sizes));
  bool of_bytes = sizes.vocabulary <= TRAIN_VOCABULARY_MIN; /* then the vocabulary size is the
                                                             * tokenizer's */
  settings->vocabulary = of_bytes ? 0 : sizes.vocabulary;
  settings->layers = sizes.layers;
  settings->heads = sizes.heads;
  settings->width = sizes.width;
  settings->context = sizes.context;
  return COLL_OK;
}

/* Fills the settings in order of priority: the checkpoint to resume, the file, the command line;
 * the presets of the latter two are already known. */
static coll_status_t fill(const base_command_t *command, int argc, char **argv,
                          const gpt_config_t *resumed, const char *file_preset,
                          const char *line_preset, gpt_settings_t *settings) {
  const gpt_config_t config = settings->config;
  bool help_printed;
  *settings = defaults;
  settings->config = config;
  COLL_TRY(gpt_config_apply(command, resumed));
  COLL_TRY(apply_preset(file_preset, settings));
  COLL_TRY(gpt_config_apply(command, &config));
  COLL_TRY(apply_preset(line_preset, settings));
  return gpt_options_parse(command, argc, argv, &help_printed);
}

static coll_status_t check_slices(const gpt_settings_t *settings) {
  gpt_slices_t slices;
  COLL_TRY(gpt_slices_read(settings->slices, 1, TRAIN_SLICES_MAX, &slices));
  if (settings->slices == NULL || settings->schedule == TRAIN_SCHEDULE_TERAPIPE) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "--slices %s needs --schedule terapipe, not %s",
                   settings->slices, train_schedule_names[settings->schedule]);
}

static coll_status_t check_partition(const gpt_settings_t *settings) {
  gpt_partition_t partition;
  coll_status_t status = gpt_partition_read(settings->partition, settings->layer_costs, &partition);
  gpt_partition_free(&partition);
  return status;
}

static coll_status_t read_tp_overlap(gpt_settings_t *settings) {
  const char *text = settings->tp_overlap;
  char *end;
  settings->tensor_overlap = 0;
  if (strcmp(text, "off") == 0) return COLL_OK;
  settings->tensor_overlap = GPT_TP_OVERLAP_AUTO;
  if (strcmp(text, "auto") == 0) return COLL_OK;
  long chunks = strtol(text, &end, 10);
  if (end == text || *end != '\0' || chunks < 1 || chunks > TRAIN_TENSOR_CHUNKS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "--tp-overlap %s: give auto, off, or 1 to %d chunks", text,
                     TRAIN_TENSOR_CHUNKS_MAX);
  }
  settings->tensor_overlap = (int)chunks;
  return COLL_OK;
}

static coll_status_t check(gpt_settings_t *settings) {
  const struct {
    const char *name;
    double value, min, max;
  } ranges[] = {{"--lr", settings->lr, 0, 1e30},
                {"--warmup", settings->warmup, 0, 1},
                {"--weight-decay", settings->weight_decay, 0, 1},
                {"--clip", settings->clip, 1e-6, 1e6},
                {"--capacity", settings->capacity, 0, 1024},
                {"--aux-loss", settings->aux_loss, 0, 1e6},
                {"--z-loss", settings->z_loss, 0, 1e6},
                {"--seconds", settings->seconds, 0, 1e8}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max) {
      return base_fail(COLL_ERROR_INVALID, "%s %g: give %g to %g", ranges[i].name, ranges[i].value,
                       ranges[i].min, ranges[i].max);
    }
  }
  if (settings->steps == 0 && settings->seconds <= 0) settings->seconds = DEFAULT_SECONDS;
  COLL_TRY(check_slices(settings));
  COLL_TRY(check_partition(settings));
  return read_tp_overlap(settings);
}

static void print(const gpt_settings_t *settings) {
  (void)json_dumpf(settings->resolved, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS));
  putchar('\n');
}

coll_status_t gpt_settings_parse(const gpt_settings_command_t *command, int argc, char **argv,
                                 gpt_settings_t *settings, bool *done) {
  table_t table = {0};
  *settings = defaults;
  *done = false;
  add_files(settings, &table);
  add_model(settings, &table);
  add_experts(settings, &table);
  add_training(settings, &table);
  add_machine(settings, &table);
  add_parallel(settings, &table);
  add_mesh(settings, &table);
  add_configuration(settings, &table);
  add(&table, command->extra, command->extra_count);
  describe_precisions(command->summary, &table);
  const base_command_t parsed = {command->name,     command->usage, table.summary,
                                 command->examples, table.options,  table.count};
  COLL_TRY(gpt_options_parse(&parsed, argc, argv, done));
  if (*done) return COLL_OK;
  const char *line_preset = settings->preset, *line_resume = settings->resume;
  if (settings->config_path != NULL) {
    COLL_TRY(base_tool_input(gpt_config_load(&parsed, settings->config_path, &settings->config)));
  }
  settings->preset = NULL;
  COLL_TRY(base_tool_input(gpt_config_apply(&parsed, &settings->config)));
  const char *resume = line_resume != NULL ? line_resume : settings->resume;
  gpt_config_t resumed = {0};
  if (resume != NULL) COLL_TRY(base_tool_input(gpt_checkpoint_options_load(resume, &resumed)));
  coll_status_t status =
      fill(&parsed, argc, argv, &resumed, settings->preset, line_preset, settings);
  gpt_config_free(&resumed);
  COLL_TRY(status);
  COLL_TRY(check(settings));
  settings->resolved = gpt_config_object(&parsed);
  *done = settings->print_config;
  if (*done) print(settings);
  return COLL_OK;
}

void gpt_settings_free(gpt_settings_t *settings) {
  json_decref(settings->resolved);
  gpt_config_free(&settings->config);
}

/* ---- conversion to libtrain's options ---- */

train_model_config_t gpt_settings_model(const gpt_settings_t *settings, size_t tokens) {
  int64_t vocabulary = settings->vocabulary > 0 ? settings->vocabulary : (int64_t)tokens;
  train_model_config_t config = {.vocabulary = (int32_t)vocabulary,
                                 .context = (int32_t)settings->context,
                                 .layers = (int32_t)settings->layers,
                                 .heads = (int32_t)settings->heads,
                                 .width = (int32_t)settings->width,
                                 .untied = settings->untied};
  if (settings->experts == 0) return config;
  config.experts = (int32_t)settings->experts;
  config.top_k = (int32_t)settings->top_k;
  config.moe_every = (int32_t)settings->moe_every;
  config.shared_expert = settings->shared_expert;
  return config;
}

train_options_t gpt_settings_options(const gpt_settings_t *settings) {
  train_options_t options = {
      .steps = (uint64_t)settings->steps,
      .seconds = settings->seconds,
      .batch = (int)settings->batch,
      .rate = settings->lr,
      .warmup = settings->warmup,
      .clip = settings->clip,
      .choose_tensor_overlap =
          settings->tensor_overlap == GPT_TP_OVERLAP_AUTO && !settings->no_overlap,
      .clip_by_stage = settings->clip_by == GPT_CLIP_BY_STAGE,
      .adamw = TRAIN_ADAMW_INIT,
      .schedule = (train_schedule_kind_t)settings->schedule,
      .evaluations = (int)settings->evaluations,
      .evaluation_tokens = (uint64_t)settings->evaluation_tokens,
      .checkpoint = settings->out};
  options.adamw.weight_decay = (float)settings->weight_decay;
  return options;
}

train_store_options_t gpt_settings_store(const gpt_settings_t *settings) {
  return (train_store_options_t){.stage = (int)settings->zero,
                                 .naive = settings->naive_dp,
                                 .bucket_bytes = (size_t)settings->bucket,
                                 .precision = (train_precision_t)settings->precision,
                                 .comm = {.overlap = !settings->no_overlap,
                                          .bfloat16 = settings->comm_dtype == GPT_COMM_BFLOAT16,
                                          .skip_communication = settings->no_comm}};
}

coll_status_t gpt_settings_passes(const gpt_settings_t *settings, int ranks,
                                  train_model_options_t *options) {
  int64_t parts = (int64_t)ranks * settings->accumulate;
  if (settings->batch % parts != 0) {
    return base_fail(
        COLL_ERROR_INVALID,
        "a batch of %d does not split evenly over %d rank%s with --accumulate %d: make "
        "--batch a multiple of %lld",
        (int)settings->batch, ranks, ranks > 1 ? "s" : "", (int)settings->accumulate,
        (long long)parts);
  }
  *options = (train_model_options_t){.sequences = (int)(settings->batch / parts),
                                     .experts = {.capacity_factor = settings->capacity,
                                                 .balance = (float)settings->aux_loss,
                                                 .z = (float)settings->z_loss},
                                     .recompute = (train_recompute_t)settings->recompute,
                                     .precision = (train_precision_t)settings->precision};
  return COLL_OK;
}
