/*
 * How tokenizers are made: of a vocabulary and merges, which come from a file or were learned.
 */
#ifndef LIBTRAIN_DATA_TOKENIZER_PARTS_H
#define LIBTRAIN_DATA_TOKENIZER_PARTS_H

#include "libtrain/data/tokenizer.h"

/* Makes a tokenizer of the tokens in the order of their ids, and of merges of which only left and
 * right are set. On success it owns merges and what *tokens held, which is left empty.
 * COLL_ERROR_INVALID begins with `name` and says what does not fit together: more than 65536
 * tokens, a byte or the end without one, a merge into a token that is none, a merge twice. */
coll_status_t train_tokenizer_assemble(const char *name, train_words_t *tokens,
                                       train_merge_t *merges, size_t merge_count,
                                       train_tokenizer_t **tokenizer);

#endif
