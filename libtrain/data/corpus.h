/*
 * The training set and the held-out set, from text or from token shards. Rank 0 encodes text once
 * into memory that all ranks map; every rank maps shard files itself.
 */
#ifndef LIBTRAIN_DATA_CORPUS_H
#define LIBTRAIN_DATA_CORPUS_H

#include "libtrain/data/dataset.h"
#include "libtrain/data/progress.h"
#include "libtrain/parallel/group.h"

typedef struct train_corpus {
  train_dataset_t training, held_out;
  train_shard_t *shards;
  size_t shard_count;
} train_corpus_t;

/* Whether the path names token shards: a .bin file, a folder with some, a pattern such as
 * "tokens/fineweb_train_*.bin", or a comma-separated list of these. */
bool train_corpus_is_shards(const char *path);

/* The tokenizer stored next to the shards or, for text, the byte tokenizer. *tokenizer is NULL when
 * none is stored next to the shards, as with shards of another program. */
coll_status_t train_corpus_tokenizer(const char *path, train_tokenizer_t **tokenizer);

/* Opens text or shards. Collective over the group; without a group (NULL) local to this process.
 * Shards whose names contain the word "val" are held out; without such shards the last tenth of all
 * tokens is. The tokenizer may be NULL for shards. All tokens must be below `vocabulary`.
 * COLL_ERROR_INVALID: no text, or shards that are damaged or were made with another tokenizer. */
coll_status_t train_corpus_open(const train_group_t *group, const char *path,
                                train_tokenizer_t *tokenizer, int vocabulary,
                                const train_progress_t *progress, train_corpus_t *corpus);
void train_corpus_close(train_corpus_t *corpus);

/* COLL_ERROR_INVALID when the training set or the held-out set is shorter than one sequence of
 * `context` tokens. */
coll_status_t train_corpus_check(const train_corpus_t *corpus, int context);

/* Equal on all ranks that opened the same data. */
uint64_t train_corpus_digest(const train_corpus_t *corpus);

#endif
