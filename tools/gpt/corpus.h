/* What commands do with text: find the tokenizer, open the tokens, say how much there is. */
#ifndef TOOLS_GPT_CORPUS_H
#define TOOLS_GPT_CORPUS_H

#include "libtrain/data/corpus.h"
#include "libtrain/files/metadata.h"

/* The tokenizer: the one at `path`, else the one kept in `record`, else the one beside the shards
 * `data`, else bytes, when there is no record or it is of as many tokens. Each may be NULL. *found
 * is NULL when nobody knows it. */
coll_status_t gpt_tokenizer_find(const char *path, const train_metadata_t *metadata,
                                 const char *data, train_tokenizer_t **found);

/* Opens --data for a model of that vocabulary and context: a collective, with a progress bar on
 * rank 0 when it takes long. The tokenizer may be NULL for shards. */
coll_status_t gpt_corpus_open(const train_group_t *group, const char *data,
                              train_tokenizer_t *tokenizer, const train_model_config_t *config,
                              train_corpus_t *corpus);

/* "25 files, 0.4 MB, 0.4 M tokens", or shards. Returns `text`. */
const char *gpt_dataset_describe(const train_dataset_t *dataset, char text[96]);

#endif
