/* Settings are named like their options, so that the option parser can read them back. */
#include "tools/gpt/checkpoint_options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void gpt_checkpoint_set_integer(train_metadata_t *metadata, const char *name, int64_t value) {
  train_metadata_set(metadata, name, "%lld", (long long)value);
}

/* Uses the fewest digits that give the same number when parsed. */
void gpt_checkpoint_set_number(train_metadata_t *metadata, const char *name, double value) {
  char text[32];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  train_metadata_set(metadata, name, "%s", text);
}

void gpt_checkpoint_set_sizes(train_metadata_t *metadata, const train_model_config_t *config) {
  gpt_checkpoint_set_integer(metadata, "vocabulary", config->vocabulary);
  gpt_checkpoint_set_integer(metadata, "layers", config->layers);
  gpt_checkpoint_set_integer(metadata, "heads", config->heads);
  gpt_checkpoint_set_integer(metadata, "width", config->width);
  gpt_checkpoint_set_integer(metadata, "context", config->context);
  if (config->untied) gpt_checkpoint_set_integer(metadata, "untied", 1);
  if (config->experts == 0) return;
  gpt_checkpoint_set_integer(metadata, "experts", config->experts);
  gpt_checkpoint_set_integer(metadata, "top-k", config->top_k);
  gpt_checkpoint_set_integer(metadata, "moe-every", config->moe_every);
  gpt_checkpoint_set_integer(metadata, "shared-expert", config->shared_expert);
}

/* The metadata with all options that the file determines. */
train_metadata_t gpt_checkpoint_metadata(const train_model_file_t *file) {
  train_metadata_t metadata = file->metadata;
  gpt_checkpoint_set_sizes(&metadata, &metadata.config);
  if (file->format->has_run_state) {
    gpt_checkpoint_set_integer(&metadata, "seed", (int64_t)metadata.position.seed);
  }
  return metadata;
}

/* A flag, which has no value. */
static bool is_flag(const train_setting_t *setting) {
  bool flag = strcmp(setting->name, "shared-expert") == 0 || strcmp(setting->name, "untied") == 0;
  return flag && strcmp(setting->value, "0") != 0;
}

/* Whether the setting is an option with a value. Others in the file are ignored. */
static bool is_option(const char *name) {
  static const char *const names[] = {
      "batch",   "lr",     "warmup",    "weight-decay", "clip",     "seed",
      "width",   "layers", "heads",     "vocabulary",   "context",  "precision",
      "experts", "top-k",  "moe-every", "capacity",     "aux-loss", "z-loss"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return false;
}

coll_status_t gpt_checkpoint_options_load(const char *path, gpt_config_t *options) {
  train_model_file_t *file;
  gpt_config_t made = {.path = path};
  void *memory;
  COLL_TRY(train_model_file_open(path, &file));
  train_metadata_t metadata = gpt_checkpoint_metadata(file);
  if (file->format->has_run_state) {
    train_metadata_set(&metadata, "precision", "%s", train_policy_of(metadata.precision)->name);
  }
  train_model_file_close(file); /* frees the tokenizer of the metadata */
  COLL_TRY(
      base_alloc(1 + 2 * (size_t)metadata.setting_count, sizeof(char *), "the options", &memory));
  made.arguments = memory;
  made.count = 1;
  for (int i = 0; i < metadata.setting_count; i++) {
    const train_setting_t *setting = &metadata.settings[i];
    char *argument = NULL;
    bool flag = is_flag(setting);
    if (!flag && !is_option(setting->name)) continue;
    if (asprintf(&argument, "--%s%s%s", setting->name, flag ? "" : "=",
                 flag ? "" : setting->value) < 0) {
      gpt_config_free(&made);
      return base_fail(COLL_ERROR_MEMORY, "out of memory for the options");
    }
    made.arguments[made.count++] = argument;
  }
  *options = made;
  return COLL_OK;
}
