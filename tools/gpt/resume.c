/* Settings have the names of their options, so that the parser reads them back. */
#include "tools/gpt/resume.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define TRAINING_TOKENS "training-tokens" /* the one setting that is no option */

static void set_integer(train_record_t *record, const char *name, int64_t value) {
  train_record_set(record, name, "%lld", (long long)value);
}

/* In as few digits as give the same number back. */
static void set_number(train_record_t *record, const char *name, double value) {
  char text[32];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  train_record_set(record, name, "%s", text);
}

static void set_sizes(const train_model_config_t *config, train_record_t *record) {
  set_integer(record, "vocabulary", config->vocabulary);
  set_integer(record, "layers", config->layers);
  set_integer(record, "heads", config->heads);
  set_integer(record, "width", config->width);
  set_integer(record, "context", config->context);
}

/* The record of the file with all that it knows about options. */
static train_record_t all_of(const train_file_t *file) {
  train_record_t record = file->record;
  set_sizes(&record.config, &record);
  if (file->format->keeps_run) set_integer(&record, "seed", (int64_t)record.position.seed);
  return record;
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
  train_file_t *file;
  gpt_config_t made = {.path = path};
  void *memory;
  COLL_TRY(train_file_open(path, &file));
  const train_record_t record = all_of(file);
  train_file_close(file); /* the tokenizer is gone now */
  COLL_TRY(
      base_alloc(1 + 2 * (size_t)record.setting_count, sizeof(char *), "the options", &memory));
  made.words = memory;
  made.count = 1;
  for (int i = 0; i < record.setting_count; i++) {
    const train_setting_t *setting = &record.settings[i];
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
                     train_record_t *record) {
  train_record_set(record, TRAINING_TOKENS, "%llu", (unsigned long long)training_tokens);
  set_integer(record, "batch", settings->batch);
  set_number(record, "lr", settings->lr);
  set_number(record, "warmup", settings->warmup);
  set_number(record, "weight-decay", settings->weight_decay);
  set_number(record, "clip", settings->clip);
}

coll_status_t gpt_resume_check(const gpt_settings_t *settings, const train_file_t *file,
                               const train_record_t *now) {
  size_t tokens = (size_t)file->record.config.vocabulary;
  const train_model_config_t asked = gpt_settings_model(settings, tokens);
  const train_record_t theirs = all_of(file);
  train_record_t ours = *now;
  set_sizes(&asked, &ours);
  set_integer(&ours, "seed", settings->seed);
  return train_record_check(settings->resume, &theirs, &ours);
}
