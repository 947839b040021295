/*
 * What a model is trained on and what is held out to measure it, from text or from token shards.
 * Text is encoded once, by rank 0 into memory that all ranks map; shards are mapped by each.
 */
#ifndef LIBTRAIN_DATA_CORPUS_H
#define LIBTRAIN_DATA_CORPUS_H

#include "libtrain/data/dataset.h"
#include "libtrain/data/watch.h"
#include "libtrain/parallel/team.h"

typedef struct train_corpus {
  train_dataset_t training, held_out;
  train_shard_t *shards;
  size_t shard_count;
} train_corpus_t;

/* Whether the path is of token shards: a .bin file, a folder with some, a pattern such as
 * "tokens/fineweb_train_*.bin", or several of these with commas between them. */
bool train_corpus_is_shards(const char *path);

/* The tokenizer that lies beside the shards or, for text, the one of bytes. *tokenizer is NULL
 * when there is none beside them, as another program may have made them. */
coll_status_t train_corpus_tokenizer(const char *path, train_tokenizer_t **tokenizer);

/* Opens text or shards: a collective of the team, or of nobody with NULL. Shards with the word
 * "val" in their names are held out; where there are none, the last tenth of all tokens is. The
 * tokenizer may be NULL for shards; their tokens must be below `vocabulary` either way.
 * COLL_ERROR_INVALID: no text, or shards that are damaged or of another tokenizer. */
coll_status_t train_corpus_open(const train_team_t *team, const char *path,
                                train_tokenizer_t *tokenizer, int vocabulary,
                                const train_watch_t *watch, train_corpus_t *corpus);
void train_corpus_close(train_corpus_t *corpus);

/* COLL_ERROR_INVALID when either side is too short for one sequence of `context` tokens. */
coll_status_t train_corpus_check(const train_corpus_t *corpus, int context);

/* The same on all ranks that have opened the same data. */
uint64_t train_corpus_digest(const train_corpus_t *corpus);

#endif
