/*
 * Encodes text files into token shards. Each file is one document, followed by the end-of-document
 * token, and goes to the shards of its split. A file that is divided between both splits gets the
 * end token in its second part only.
 */
#ifndef LIBTRAIN_DATA_ENCODE_H
#define LIBTRAIN_DATA_ENCODE_H

#include "libtrain/data/shard.h"

/* Writes shards of at most `max_tokens` tokens and tokenizer.json into `folder`, which must not
 * exist. The files are written to "folder.part", which is renamed when it is complete. `progress`
 * receives bytes of text. Sets tokens[] to the tokens of each split. */
coll_status_t train_encode_to_folder(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                     const char *folder, uint64_t max_tokens,
                                     const train_progress_t *progress,
                                     uint64_t tokens[TRAIN_SPLITS]);

/* Encodes into one in-memory shard per split. The caller closes both writers. */
coll_status_t train_encode_to_memory(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                     const train_progress_t *progress,
                                     train_shard_writer_t writers[TRAIN_SPLITS]);

#endif
