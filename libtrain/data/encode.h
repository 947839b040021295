/*
 * Text files into token shards: each file is one document, with the end after it, and goes to the
 * shards of its side; where it is cut in two by the split, only its second part has an end.
 */
#ifndef LIBTRAIN_DATA_ENCODE_H
#define LIBTRAIN_DATA_ENCODE_H

#include "libtrain/data/shard.h"

/* Writes shards of at most `tokens_most` tokens, and beside them tokenizer.json, into `folder`,
 * which must not be there: it appears when it is complete, under "folder.part" until then. The
 * watch is told bytes. Sets the tokens of each side. */
coll_status_t train_encode_to_folder(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                                     const char *folder, uint64_t tokens_most,
                                     const train_watch_t *watch, uint64_t tokens[TRAIN_SIDES]);

/* Writes one shard for each side into memory; the caller closes both. */
coll_status_t train_encode_to_memory(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                                     const train_watch_t *watch,
                                     train_shard_writer_t writers[TRAIN_SIDES]);

#endif
