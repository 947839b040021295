/*
 * Vocabulary and merges in GPT-2's spelling (spelling.h), as both kinds of files have them: an
 * object from tokens to ids, and pairs of tokens in the order of ranks.
 */
#ifndef LIBTRAIN_DATA_SPELLED_H
#define LIBTRAIN_DATA_SPELLED_H

#include <jansson.h>

#include "libtrain/data/tokenizer.h"

/* Adds all tokens of the object to *tokens, which is empty, in the order of their ids.
 * COLL_ERROR_INVALID begins with `name`: no object, ids that are not 0 to n - 1, a token that
 * spells no bytes. */
coll_status_t train_spelled_read_vocabulary(const char *name, const json_t *vocabulary,
                                            train_words_t *tokens);

/* The object; NULL when memory is out. The caller owns it. */
json_t *train_spelled_vocabulary(const train_tokenizer_t *tokenizer);

/* Merges while they are read; all zero is none. */
typedef struct train_merge_list {
  train_merge_t *merges; /* [count]; left and right are set */
  size_t count, capacity;
} train_merge_list_t;

/* Adds the merge of two tokens that `tokens` must have; COLL_ERROR_INVALID begins with `name`. */
coll_status_t train_spelled_read_merge(const char *name, const train_words_t *tokens,
                                       const char *left, size_t left_length, const char *right,
                                       size_t right_length, train_merge_list_t *list);

/* Adds the merge "left right"; COLL_ERROR_INVALID, too, when the text is not that. */
coll_status_t train_spelled_read_merge_line(const char *name, const train_words_t *tokens,
                                            const char *line, size_t length,
                                            train_merge_list_t *list);

/* The merge as such a line, with an end mark, in memory that the caller frees. */
coll_status_t train_spelled_merge_line(const train_tokenizer_t *tokenizer, size_t rank,
                                       char **line);

#endif
