/*
 * A set of byte strings that are numbered as they come: the vocabulary of a tokenizer, the words
 * that have been met. A hash table of numbers over one pool of bytes.
 */
#ifndef LIBTRAIN_DATA_WORDS_H
#define LIBTRAIN_DATA_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_WORD_NONE UINT32_MAX

typedef struct train_word_slot {
  uint32_t hash, number; /* number + 1; 0 for an empty slot */
} train_word_slot_t;

/* All zero is the empty set. */
typedef struct train_words {
  size_t count;
  uint8_t *bytes; /* word after word */
  size_t byte_capacity;
  uint64_t *ends; /* [count]: where in bytes each word ends */
  size_t end_capacity;
  train_word_slot_t *slots; /* [slot_count], a power of two, at most half of them taken */
  size_t slot_count;
} train_words_t;

/* The number of a word, TRAIN_WORD_NONE when the set does not have it. */
uint32_t train_words_find(const train_words_t *words, const void *word, size_t count);

/* Finds the word or adds it with the number words->count, which then grows. */
coll_status_t train_words_add(train_words_t *words, const void *word, size_t count,
                              uint32_t *number);

/* The word with this number, valid until the next one is added. */
const uint8_t *train_words_at(const train_words_t *words, uint32_t number, size_t *count);

/* Bytes of all words together. */
size_t train_words_bytes(const train_words_t *words);

void train_words_free(train_words_t *words);

#endif
