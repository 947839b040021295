/* Shared by commands that read data: finds the tokenizer, opens the dataset, and describes it. */
#ifndef TOOLS_GPT_CORPUS_H
#define TOOLS_GPT_CORPUS_H

#include "libtrain/data/corpus.h"
#include "libtrain/files/metadata.h"

/* Opens the tokenizer: the one at `path`, else the one in `metadata`, else the one next to the
 * shards `data`, else the byte tokenizer if there is no metadata or its vocabulary has that size.
 * Each argument may be NULL. *found is NULL if the tokenizer is unknown. */
coll_status_t gpt_tokenizer_find(const char *path, const train_metadata_t *metadata,
                                 const char *data, train_tokenizer_t **found);

/* Opens --data for a model with that vocabulary and context. Collective; rank 0 shows a progress
 * bar if it takes long. The tokenizer may be NULL for shards. */
coll_status_t gpt_corpus_open(const train_group_t *group, const char *data,
                              train_tokenizer_t *tokenizer, const train_model_config_t *config,
                              train_corpus_t *corpus);

/* "25 files, 0.4 MB, 0.4 M tokens", or the number of shards. Returns `text`. */
const char *gpt_dataset_describe(const train_dataset_t *dataset, char text[96]);

#endif
