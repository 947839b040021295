/*
 * Trains a byte pair encoding tokenizer: counts the words of a text, then repeatedly merges the
 * most frequent pair of adjacent tokens (Sennrich, Haddow and Birch 2016). The result does not
 * depend on the order in which words are added: of pairs with equal counts the one with the lower
 * ids is merged first.
 */
#ifndef LIBTRAIN_DATA_BPE_H
#define LIBTRAIN_DATA_BPE_H

#include "libtrain/data/progress.h"
#include "libtrain/data/tokenizer.h"

/* The distinct words of a text with their counts. All zero is the empty set. */
typedef struct train_word_counts {
  train_string_table_t words;
  uint64_t *counts; /* [words.count] */
  size_t capacity;
} train_word_counts_t;

/* Adds the words of one complete document. */
coll_status_t train_word_counts_add(train_word_counts_t *counts, const void *text, size_t bytes);
void train_word_counts_free(train_word_counts_t *counts);

/* Trains a tokenizer of `vocabulary` tokens: the bytes in GPT-2's order, the results of the merges
 * in merge order, and the end-of-document token. The vocabulary is smaller when no pair occurs
 * twice any more. COLL_ERROR_INVALID: vocabulary is not in TRAIN_VOCABULARY_MIN..MAX.
 * COLL_ERROR_UNSUPPORTED: the distinct words exceed 4 billion bytes. */
coll_status_t train_bpe_learn(const train_word_counts_t *counts, int vocabulary,
                              const train_progress_t *progress, train_tokenizer_t **tokenizer);

#endif
