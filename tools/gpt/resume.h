/*
 * What a run that goes on has in common with the one that left the checkpoint: the model's sizes
 * and the settings that its record keeps. They stand for the options that nobody gives, and others
 * are refused; how long to train, and on how many ranks, is free.
 */
#ifndef TOOLS_GPT_RESUME_H
#define TOOLS_GPT_RESUME_H

#include "libtrain/files/model_file.h"
#include "tools/gpt/settings.h"

/* What the model file at `path`, which the caller keeps alive, says about options, as if it stood
 * in a configuration. COLL_ERROR_INVALID and COLL_ERROR_SYSTEM as train_model_file_open. */
coll_status_t gpt_resume_options(const char *path, gpt_config_t *options);

/* Sets in the record what a run on so many tokens has to go on with. */
void gpt_resume_keep(const gpt_settings_t *settings, uint64_t training_tokens,
                     train_metadata_t *metadata);

/* COLL_ERROR_INVALID names an option or the data that is not as it was in the file to resume, and
 * both values. `now` is from gpt_resume_keep. */
coll_status_t gpt_resume_check(const gpt_settings_t *settings, const train_model_file_t *file,
                               const train_metadata_t *now);

#endif
