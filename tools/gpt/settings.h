/*
 * What a training run is told: every option of gpt train, from the command line, a --config file
 * and a --preset. Later ones win: defaults, the file's preset, the file, the command line's preset,
 * the command line.
 */
#ifndef TOOLS_GPT_SETTINGS_H
#define TOOLS_GPT_SETTINGS_H

#include "libtrain/trainer.h"
#include "tools/gpt/config.h"

typedef struct gpt_settings {
  const char *config_path, *preset; /* NULL: none, here and below */
  bool print_config;
  const char *data, *out, *resume;
  const char *log, *tensorboard, *curve;
  int64_t vocabulary; /* 0: as many tokens as there are */
  int64_t layers, heads, width, context;
  int64_t batch, steps, seed, threads, evaluations;
  double seconds, lr, warmup, weight_decay, clip;
  uint64_t evaluation_bytes;
  gpt_config_t config; /* what the texts above may point into */
  json_t *resolved;    /* all of them, by name */
} gpt_settings_t;

/* A command that takes a training run's options: gpt train. */
typedef struct gpt_settings_command {
  const char *name, *usage, *summary, *examples;
} gpt_settings_command_t;

/* The settings of this command line. *done: a page or the configuration was printed to standard
 * output and nothing is left to do. COLL_ERROR_INVALID: an option or key with what is wrong with
 * it. The settings are freed either way. */
coll_status_t gpt_settings_parse(const gpt_settings_command_t *command, int argc, char **argv,
                                 gpt_settings_t *settings, bool *done);
void gpt_settings_free(gpt_settings_t *settings);

/* What libtrain is to be told. */
train_model_config_t gpt_settings_model(const gpt_settings_t *settings);
train_options_t gpt_settings_options(const gpt_settings_t *settings);

#endif
