/*
 * Learns a tokenizer from text: counts its words, then merges the pair of tokens that occurs most
 * often, again and again (Sennrich, Haddow and Birch 2016). The same words give the same tokenizer,
 * in whatever order they came: of pairs as frequent the one with the lower ids is merged first.
 */
#ifndef LIBTRAIN_DATA_BPE_H
#define LIBTRAIN_DATA_BPE_H

#include "libtrain/data/tokenizer.h"
#include "libtrain/data/watch.h"

/* The words of a text and how often each occurs. All zero is none. */
typedef struct train_word_counts {
  train_words_t words;
  uint64_t *counts; /* [words.count] */
  size_t capacity;
} train_word_counts_t;

/* Adds the words of a whole document. */
coll_status_t train_word_counts_add(train_word_counts_t *counts, const void *text, size_t bytes);
void train_word_counts_free(train_word_counts_t *counts);

/* Learns a tokenizer of `vocabulary` tokens: the bytes in GPT-2's order, what merges made in the
 * order of the merges, and the end. It has fewer when no pair occurs twice any more.
 * COLL_ERROR_INVALID: vocabulary is not TRAIN_VOCABULARY_LEAST..MOST. COLL_ERROR_UNSUPPORTED: the
 * different words have more than 4 billion bytes together. */
coll_status_t train_bpe_learn(const train_word_counts_t *counts, int vocabulary,
                              const train_watch_t *watch, train_tokenizer_t **tokenizer);

#endif
