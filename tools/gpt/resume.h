/*
 * Checks that a resumed run has the same model sizes and settings as the run that saved the
 * checkpoint. The length of the run, the number of ranks and the precision may differ.
 */
#ifndef TOOLS_GPT_RESUME_H
#define TOOLS_GPT_RESUME_H

#include "libtrain/files/model_file.h"
#include "tools/gpt/settings.h"

/* Sets in the metadata the precision, and the settings that a resumed run must not change;
 * training_tokens is the size of the training set. */
void gpt_resume_set_settings(const gpt_settings_t *settings, uint64_t training_tokens,
                             train_metadata_t *metadata);

/* COLL_ERROR_INVALID names the option, or the size of the training data, that differs from the file
 * to resume, and both values. `now` was set by gpt_resume_set_settings. */
coll_status_t gpt_resume_check(const gpt_settings_t *settings, const train_model_file_t *file,
                               const train_metadata_t *now);

/* Prints a note to standard error if the run has another precision than the one that it resumes. */
void gpt_resume_print_precision(const gpt_settings_t *settings, const train_model_file_t *file);

#endif
