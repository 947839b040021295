/*
 * Reads and writes tokenizer files of other programs: Hugging Face's tokenizer.json (a BPE model
 * with ByteLevel pre-tokenizer and decoder), and GPT-2's vocab.json with merges.txt, originally
 * named encoder.json and vocab.bpe.
 */
#ifndef LIBTRAIN_DATA_TOKENIZER_FILES_H
#define LIBTRAIN_DATA_TOKENIZER_FILES_H

#include <stdbool.h>

#include "libtrain/data/tokenizer.h"

/* Opens the tokenizer that `path` names: the word "bytes", a tokenizer.json, or a folder with one
 * or with vocab.json and merges.txt. COLL_ERROR_INVALID says what is wrong with the file: not a
 * tokenizer, an unsupported kind, merges of unknown tokens. */
coll_status_t train_tokenizer_open(const char *path, train_tokenizer_t **tokenizer);

/* Whether the folder contains a tokenizer, valid or not. */
bool train_tokenizer_exists_in(const char *folder);

/* Writes a tokenizer.json if the path ends in .json, else vocab.json and merges.txt into that
 * folder, which is created if necessary. Each file is replaced atomically. */
coll_status_t train_tokenizer_save(const train_tokenizer_t *tokenizer, const char *path);

/* Converts to and from the text of a tokenizer.json. The text is zero-terminated (the zero is not
 * in *count) and freed by the caller. `name` begins the messages about invalid text. */
coll_status_t train_tokenizer_to_json(const train_tokenizer_t *tokenizer, char **text,
                                      size_t *count);
coll_status_t train_tokenizer_from_json(const char *name, const char *text, size_t count,
                                        train_tokenizer_t **tokenizer);

#endif
