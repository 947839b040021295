/*
 * Tokenizers in files that others read and write: Hugging Face's tokenizer.json (a BPE model with a
 * ByteLevel pre-tokenizer and decoder), and GPT-2's own pair of vocab.json and merges.txt, also
 * under their first names encoder.json and vocab.bpe.
 */
#ifndef LIBTRAIN_DATA_TOKENIZER_FILES_H
#define LIBTRAIN_DATA_TOKENIZER_FILES_H

#include <stdbool.h>

#include "libtrain/data/tokenizer.h"

/* The tokenizer that `path` names: the word "bytes", a tokenizer.json, or a folder with one or with
 * GPT-2's pair. COLL_ERROR_INVALID says what is wrong with a file: no tokenizer, one of another
 * kind, merges of tokens that are not there. */
coll_status_t train_tokenizer_open(const char *path, train_tokenizer_t **tokenizer);

/* Whether the folder has one, good or bad. */
bool train_tokenizer_lies_in(const char *folder);

/* Writes a tokenizer.json where the path ends in .json, else GPT-2's pair into that folder, which
 * is made if need be. Each file appears whole or not at all. */
coll_status_t train_tokenizer_save(const train_tokenizer_t *tokenizer, const char *path);

/* The text of a tokenizer.json, ended by a 0 that *count leaves out, in memory that the caller
 * frees; and back. `name` begins the sentences about what is wrong with it. */
coll_status_t train_tokenizer_to_json(const train_tokenizer_t *tokenizer, char **text,
                                      size_t *count);
coll_status_t train_tokenizer_from_json(const char *name, const char *text, size_t count,
                                        train_tokenizer_t **tokenizer);

#endif
