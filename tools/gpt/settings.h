/*
 * What a training run is told: every option of gpt train, from the command line, a --config file,
 * a --preset and the checkpoint to resume. Later ones win: defaults, the checkpoint, the file's
 * preset, the file, the command line's preset, the command line.
 */
#ifndef TOOLS_GPT_SETTINGS_H
#define TOOLS_GPT_SETTINGS_H

#include "libtrain/parallel/store.h"
#include "libtrain/trainer.h"
#include "tools/gpt/config.h"

/* The values of --comm-dtype. */
typedef enum gpt_comm_dtype { GPT_COMM_FLOAT32, GPT_COMM_BFLOAT16 } gpt_comm_dtype_t;

typedef struct gpt_settings {
  const char *config_path, *preset; /* NULL: none, here and below */
  bool print_config;
  const char *data, *tokenizer, *out, *resume;
  const char *log, *tensorboard, *curve;
  int64_t vocabulary; /* 0: as many tokens as there are */
  int64_t layers, heads, width, context;
  int64_t batch, steps, seed, threads, evaluations, evaluation_tokens;
  double seconds, lr, warmup, weight_decay, clip;
  int64_t zero, accumulate;
  uint64_t bucket;
  int comm_dtype; /* a gpt_comm_dtype_t */
  int recompute;  /* a train_recompute_t */
  bool no_overlap, no_comm;
  gpt_config_t config; /* what the texts above may point into */
  json_t *resolved;    /* all of them, by name */
} gpt_settings_t;

/* A command that takes a training run's options, and perhaps some of its own. */
typedef struct gpt_settings_command {
  const char *name, *usage, *summary, *examples;
  const base_option_t *extra; /* [extra_count] */
  size_t extra_count;
} gpt_settings_command_t;

/* The settings of this command line. *done: a page or the configuration was printed to standard
 * output and nothing is left to do. COLL_ERROR_INVALID: an option or key with what is wrong with
 * it. The settings are freed either way. */
coll_status_t gpt_settings_parse(const gpt_settings_command_t *command, int argc, char **argv,
                                 gpt_settings_t *settings, bool *done);
void gpt_settings_free(gpt_settings_t *settings);

/* What libtrain is to be told. The model has `tokens` tokens unless the settings say otherwise. */
train_model_config_t gpt_settings_model(const gpt_settings_t *settings, size_t tokens);
train_options_t gpt_settings_options(const gpt_settings_t *settings);
train_store_options_t gpt_settings_store(const gpt_settings_t *settings);

/* The model that each of `ranks` ranks runs; COLL_ERROR_INVALID when the batch does not split
 * evenly over them and the micro-batches. */
coll_status_t gpt_settings_passes(const gpt_settings_t *settings, int ranks,
                                  train_model_options_t *options);

#endif
