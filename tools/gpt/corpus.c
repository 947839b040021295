/* Wraps libtrain/data with messages and a progress bar. */
#include "tools/gpt/corpus.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/progress.h"
#include "libtrain/data/tokenizer_files.h"

#define PROGRESS_DELAY_NS 1000000000u /* a progress bar appears after this time */

coll_status_t gpt_tokenizer_find(const char *path, const train_metadata_t *metadata,
                                 const char *data, train_tokenizer_t **found) {
  *found = NULL;
  if (path != NULL) return train_tokenizer_open(path, found);
  if (metadata != NULL && metadata->tokenizer != NULL) {
    return train_tokenizer_from_json("the model's tokenizer", metadata->tokenizer,
                                     metadata->tokenizer_bytes, found);
  }
  if (data != NULL && train_corpus_is_shards(data)) return train_corpus_tokenizer(data, found);
  if (metadata != NULL && metadata->config.vocabulary != TRAIN_VOCABULARY_MIN) return COLL_OK;
  return train_tokenizer_create_bytes(found);
}

static void advance(void *context, double done, double total) {
  base_progress_t *progress = context;
  progress->total = total;
  if (base_clock_now_ns() - progress->started_ns > PROGRESS_DELAY_NS) {
    base_progress_update(progress, done, "");
  }
}

/* Checks that need no communication. */
static coll_status_t check(const char *data, const train_tokenizer_t *tokenizer,
                           const train_model_config_t *config) {
  if (tokenizer == NULL) {
    if (train_corpus_is_shards(data)) return COLL_OK;
    return base_fail(COLL_ERROR_INVALID,
                     "the tokenizer of the model's %d tokens is unknown: give --tokenizer",
                     config->vocabulary);
  }
  if (tokenizer->tokens.count <= (size_t)config->vocabulary) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "the tokenizer has %zu tokens, but the model only %d: give the model's "
                   "--tokenizer, or a new model that --vocabulary",
                   tokenizer->tokens.count, config->vocabulary);
}

coll_status_t gpt_corpus_open(const train_group_t *group, const char *data,
                              train_tokenizer_t *tokenizer, const train_model_config_t *config,
                              train_corpus_t *corpus) {
  base_progress_t progress;
  const train_progress_t callback = {advance, &progress};
  COLL_TRY(train_group_agree(group, check(data, tokenizer, config)));
  base_progress_begin(&progress, "encode", 1);
  coll_status_t status =
      train_corpus_open(group, data, tokenizer, config->vocabulary, &callback, corpus);
  if (progress.shown) base_progress_end(&progress, progress.total, "");
  COLL_TRY(status);
  return train_group_agree(group, train_corpus_check(corpus, config->context));
}

const char *gpt_dataset_describe(const train_dataset_t *dataset, char text[96]) {
  const char *plural = dataset->files == 1 ? "" : "s";
  bool is_small = dataset->count < 1000000;
  double tokens = (double)dataset->count * (is_small ? 1e-3 : 1e-6);
  double megabytes = (double)dataset->bytes * 1e-6;
  const char *unit = is_small ? "k" : "M";
  if (dataset->bytes > 0) {
    snprintf(text, 96, "%zu file%s, %.*f MB, %.2f %s tokens", dataset->files, plural,
             megabytes < 1 ? 3 : 1, megabytes, tokens, unit);
  } else {
    snprintf(text, 96, "%zu shard%s, %.2f %s tokens", dataset->files, plural, tokens, unit);
  }
  return text;
}
