/*
 * The options of gpt train, from the command line, a --config file, a --preset and the checkpoint
 * to resume. In ascending priority: defaults, the checkpoint, the file's preset, the file, the
 * command line's preset, the command line.
 */
#ifndef TOOLS_GPT_SETTINGS_H
#define TOOLS_GPT_SETTINGS_H

#include "libtrain/parallel/store.h"
#include "libtrain/trainer.h"
#include "tools/gpt/config.h"
#include "tools/gpt/mesh_options.h"

/* The values of --comm-dtype. */
typedef enum gpt_comm_dtype { GPT_COMM_FLOAT32, GPT_COMM_BFLOAT16 } gpt_comm_dtype_t;

/* The values of --clip-by. */
typedef enum gpt_clip_by { GPT_CLIP_BY_GLOBAL, GPT_CLIP_BY_STAGE } gpt_clip_by_t;

/* --tp-overlap auto: the trainer measures and chooses. */
#define GPT_TP_OVERLAP_AUTO -1

typedef struct gpt_settings {
  const char *config_path, *preset; /* NULL: not given; here and below */
  bool print_config;
  const char *data, *tokenizer, *out, *resume;
  const char *log, *tensorboard, *curve, *trace;
  int64_t vocabulary; /* 0: the size of the tokenizer's vocabulary */
  int64_t layers, heads, width, context;
  bool untied;
  int64_t experts, top_k, moe_every; /* experts 0: every MLP is dense */
  bool shared_expert;
  double capacity, aux_loss, z_loss;
  int64_t batch, steps, seed, threads, evaluations, evaluation_tokens;
  double seconds, lr, warmup, weight_decay, clip;
  int clip_by; /* a gpt_clip_by_t */
  int64_t zero, accumulate;
  uint64_t bucket;
  int comm_dtype; /* a gpt_comm_dtype_t */
  int recompute;  /* a train_recompute_t */
  int precision;  /* a train_precision_t */
  bool naive_dp, no_overlap, no_comm, explain;
  gpt_mesh_settings_t mesh;
  bool sequence_parallel;
  const char *tp_overlap;
  int tensor_overlap; /* what it says: train_model_axes_t.tensor_overlap, or GPT_TP_OVERLAP_AUTO */
  int context_kind;   /* a train_context_kind_t */
  int schedule;       /* a train_schedule_kind_t */
  int64_t virtual_stages;
  const char *partition, *layer_costs; /* for gpt_partition_read */
  const char *slices;                  /* for gpt_slices_read */
  gpt_config_t config;                 /* owns texts that the fields above may point to */
  json_t *resolved;                    /* all options by name */
} gpt_settings_t;

/* A command that has the options of gpt train and possibly its own ones. */
typedef struct gpt_settings_command {
  const char *name, *usage, *summary, *examples;
  const base_option_t *extra; /* [extra_count] */
  size_t extra_count;
} gpt_settings_command_t;

/* Parses the command line. *done: help or the configuration was printed to standard output and the
 * command is finished. COLL_ERROR_INVALID names the option or key and what is wrong with it. The
 * caller frees the settings in any case. */
coll_status_t gpt_settings_parse(const gpt_settings_command_t *command, int argc, char **argv,
                                 gpt_settings_t *settings, bool *done);
void gpt_settings_free(gpt_settings_t *settings);

/* --precision of commands that only run forward passes: without bf16-pure, which is then the same
 * as bf16. *precision receives a train_precision_t. */
base_option_t gpt_settings_forward_precision(int *precision);

/* --sp and --cp-kind. */
#define GPT_KIND_OPTIONS 2
void gpt_settings_kinds(gpt_settings_t *settings, base_option_t options[GPT_KIND_OPTIONS]);

/* The corresponding options of libtrain. The model's vocabulary has `tokens` tokens unless the
 * settings give its size. */
train_model_config_t gpt_settings_model(const gpt_settings_t *settings, size_t tokens);
train_options_t gpt_settings_options(const gpt_settings_t *settings);
train_store_options_t gpt_settings_store(const gpt_settings_t *settings);

/* The model options for each of `ranks` ranks that divide the batch. COLL_ERROR_INVALID if it
 * cannot be divided evenly among ranks and micro-batches. */
coll_status_t gpt_settings_passes(const gpt_settings_t *settings, int ranks,
                                  train_model_options_t *options);

#endif
