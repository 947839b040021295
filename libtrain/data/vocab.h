/*
 * The vocabulary and the merges in the text form that vocab.json, merges.txt and tokenizer.json
 * share: a JSON object from tokens to ids, and pairs of tokens in rank order. Tokens are written in
 * the byte-level alphabet (byte_level.h).
 */
#ifndef LIBTRAIN_DATA_VOCAB_H
#define LIBTRAIN_DATA_VOCAB_H

#include <jansson.h>

#include "libtrain/data/tokenizer.h"

/* Adds all tokens of the object to the empty table *tokens, in the order of their ids.
 * COLL_ERROR_INVALID begins with `name`: not an object, ids that are not 0 to n - 1, a token with
 * characters outside the byte-level alphabet. */
coll_status_t train_vocab_read(const char *name, const json_t *vocabulary,
                               train_string_table_t *tokens);

/* The vocabulary as a JSON object owned by the caller; NULL when out of memory. */
json_t *train_vocab_to_json(const train_tokenizer_t *tokenizer);

/* The merges read so far. All zero is the empty list. */
typedef struct train_merge_list {
  train_merge_t *merges; /* Adds the merge of two tokens, which must be in `tokens`;
                          * COLL_ERROR_INVALID begins with `name`. */
  size_t count, capacity;
} train_merge_list_t;

/* Adds the merge "left right". COLL_ERROR_INVALID also when the text is not two tokens and a
 * space. */
coll_status_t train_vocab_read_merge(const char *name, const train_string_table_t *tokens,
                                     const char *left, size_t left_length, const char *right,
                                     size_t right_length, train_merge_list_t *list);

/* The merge as a line "left right", zero-terminated, in memory that the caller frees. */
coll_status_t train_vocab_read_merge_line(const char *name, const train_string_table_t *tokens,
                                          const char *line, size_t length,
                                          train_merge_list_t *list);

/* The merge as such a line, with an end mark, in memory that the caller frees. */
coll_status_t train_vocab_merge_line(const train_tokenizer_t *tokenizer, size_t rank, char **line);

#endif
