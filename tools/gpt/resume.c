/* Saved and current settings are compared as text, under the names of their options. */
#include "tools/gpt/resume.h"

#include <stdio.h>

#include "tools/gpt/checkpoint_options.h"

#define TRAINING_TOKENS "training-tokens" /* the only setting that is not an option */

void gpt_resume_set_settings(const gpt_settings_t *settings, uint64_t training_tokens,
                             train_metadata_t *metadata) {
  train_metadata_set(metadata, TRAINING_TOKENS, "%llu", (unsigned long long)training_tokens);
  metadata->precision = (train_precision_t)settings->precision;
  gpt_checkpoint_set_integer(metadata, "batch", settings->batch);
  gpt_checkpoint_set_number(metadata, "lr", settings->lr);
  gpt_checkpoint_set_number(metadata, "warmup", settings->warmup);
  gpt_checkpoint_set_number(metadata, "weight-decay", settings->weight_decay);
  gpt_checkpoint_set_number(metadata, "clip", settings->clip);
  if (settings->experts == 0) return;
  gpt_checkpoint_set_number(metadata, "capacity", settings->capacity);
  gpt_checkpoint_set_number(metadata, "aux-loss", settings->aux_loss);
  gpt_checkpoint_set_number(metadata, "z-loss", settings->z_loss);
}

/* What one of the two models does not have at all. */
static coll_status_t check_kind(const char *path, const train_model_config_t *saved,
                                const train_model_config_t *requested) {
  if (saved->untied != requested->untied) {
    return base_fail(
        COLL_ERROR_INVALID, "%s was trained %s --untied: %s", path,
        saved->untied ? "with" : "without",
        saved->untied ? "the file of --config must not set it to false" : "leave it out");
  }
  if (saved->experts == 0 && requested->experts > 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s was trained without experts, this run has --experts %d: leave it out",
                     path, requested->experts);
  }
  if (saved->experts > 0 && requested->experts == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s was trained with --experts %d, this run has none: resume with the same "
                     "value",
                     path, saved->experts);
  }
  return COLL_OK;
}

coll_status_t gpt_resume_check(const gpt_settings_t *settings, const train_model_file_t *file,
                               const train_metadata_t *now) {
  size_t tokens = (size_t)file->metadata.config.vocabulary;
  const train_model_config_t requested = gpt_settings_model(settings, tokens);
  const train_metadata_t saved = gpt_checkpoint_metadata(file);
  train_metadata_t current = *now;
  COLL_TRY(check_kind(settings->resume, &file->metadata.config, &requested));
  gpt_checkpoint_set_sizes(&current, &requested);
  gpt_checkpoint_set_integer(&current, "seed", settings->seed);
  return train_metadata_check(settings->resume, &saved, &current);
}

void gpt_resume_print_precision(const gpt_settings_t *settings, const train_model_file_t *file) {
  train_precision_t saved = file->metadata.precision, now = (train_precision_t)settings->precision;
  if (file->metadata.position.step == 0 || saved == now) return;
  fprintf(stderr, "gpt train: %s was trained with --precision %s, this run continues with %s\n",
          settings->resume, train_policy_of(saved)->name, train_policy_of(now)->name);
}
