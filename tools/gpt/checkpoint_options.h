/*
 * The options that a model file determines: its model sizes and, for a checkpoint, the training
 * settings in its metadata. A resumed run takes them from the file.
 */
#ifndef TOOLS_GPT_CHECKPOINT_OPTIONS_H
#define TOOLS_GPT_CHECKPOINT_OPTIONS_H

#include "libtrain/files/model_file.h"
#include "tools/gpt/config.h"

/* Reads the options from the model file at `path`, in the form of a configuration file. The caller
 * keeps `path` valid. COLL_ERROR_INVALID and COLL_ERROR_SYSTEM as train_model_file_open. */
coll_status_t gpt_checkpoint_options_load(const char *path, gpt_config_t *options);

/* Adds settings to the metadata, named like their options. */
void gpt_checkpoint_set_integer(train_metadata_t *metadata, const char *name, int64_t value);
void gpt_checkpoint_set_number(train_metadata_t *metadata, const char *name, double value);
void gpt_checkpoint_set_sizes(train_metadata_t *metadata, const train_model_config_t *config);

/* The metadata of the file with all options that the file determines as settings. Its tokenizer is
 * owned by the file. */
train_metadata_t gpt_checkpoint_metadata(const train_model_file_t *file);

#endif
