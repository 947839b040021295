/* Settings have the names of their options, so that the parser reads them back. */
#include "tools/gpt/resume.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define TRAINING_TOKENS "training-tokens" /* the one setting that is no option */

static void set_integer(train_metadata_t *metadata, const char *name, int64_t value) {
  train_metadata_set(metadata, name, "%lld", (long long)value);
}

/* In as few digits as give the same number back. */
static void set_number(train_metadata_t *metadata, const char *name, double value) {
  char text[32];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  train_metadata_set(metadata, name, "%s", text);
}

static void set_sizes(const train_model_config_t *config, train_metadata_t *metadata) {
  set_integer(metadata, "vocabulary", config->vocabulary);
  set_integer(metadata, "layers", config->layers);
  set_integer(metadata, "heads", config->heads);
  set_integer(metadata, "width", config->width);
  set_integer(metadata, "context", config->context);
}

/* The record of the file with all that it knows about options. */
static train_metadata_t all_of(const train_model_file_t *file) {
  train_metadata_t metadata = file->metadata;
  set_sizes(&metadata.config, &metadata);
  if (file->format->has_run_state) set_integer(&metadata, "seed", (int64_t)metadata.position.seed);
  return metadata;
}

/* Whether it is one that gpt_resume_keep or set_sizes wrote: a file may hold anything. */
static bool is_kept(const char *name) {
  static const char *const kept[] = {"batch", "lr",     "warmup", "weight-decay", "clip",   "seed",
                                     "width", "layers", "heads",  "vocabulary",   "context"};
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
    if (strcmp(name, kept[i]) == 0) return true;
  }
  return false;
}

coll_status_t gpt_resume_options(const char *path, gpt_config_t *options) {
  train_model_file_t *file;
  gpt_config_t made = {.path = path};
  void *memory;
  COLL_TRY(train_model_file_open(path, &file));
  const train_metadata_t metadata = all_of(file);
  train_model_file_close(file); /* the tokenizer is gone now */
  COLL_TRY(
      base_alloc(1 + 2 * (size_t)metadata.setting_count, sizeof(char *), "the options", &memory));
  made.words = memory;
  made.count = 1;
  for (int i = 0; i < metadata.setting_count; i++) {
    const train_setting_t *setting = &metadata.settings[i];
    char *word = NULL;
    if (!is_kept(setting->name)) continue;
    if (asprintf(&word, "--%s=%s", setting->name, setting->value) < 0) {
      gpt_config_free(&made);
      return base_fail(COLL_ERROR_MEMORY, "out of memory for the options");
    }
    made.words[made.count++] = word;
  }
  *options = made;
  return COLL_OK;
}

void gpt_resume_keep(const gpt_settings_t *settings, uint64_t training_tokens,
                     train_metadata_t *metadata) {
  train_metadata_set(metadata, TRAINING_TOKENS, "%llu", (unsigned long long)training_tokens);
  set_integer(metadata, "batch", settings->batch);
  set_number(metadata, "lr", settings->lr);
  set_number(metadata, "warmup", settings->warmup);
  set_number(metadata, "weight-decay", settings->weight_decay);
  set_number(metadata, "clip", settings->clip);
}

coll_status_t gpt_resume_check(const gpt_settings_t *settings, const train_model_file_t *file,
                               const train_metadata_t *now) {
  size_t tokens = (size_t)file->metadata.config.vocabulary;
  const train_model_config_t asked = gpt_settings_model(settings, tokens);
  const train_metadata_t theirs = all_of(file);
  train_metadata_t ours = *now;
  set_sizes(&asked, &ours);
  set_integer(&ours, "seed", settings->seed);
  return train_metadata_check(settings->resume, &theirs, &ours);
}
