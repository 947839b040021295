/*
 * A slow reference tokenizer: tests the alternatives of the pre-tokenizer's rule one by one,
 * applies merges rank by rank to each word, and recounts all pairs for every merge. Also generates
 * random text that is hard to tokenize.
 */
#ifndef TESTS_LIBTRAIN_DATA_REFERENCE_H
#define TESTS_LIBTRAIN_DATA_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/tokenizer.h"

/* Random number generator of a test. */
uint32_t reference_random(uint64_t *state);

/* `count` bytes: descriptors of several scripts, digits, punctuation, kinds of white space,
 * contractions, and bytes that are not UTF-8. */
void reference_text(uint64_t *state, uint8_t *text, size_t count);

/* `count` bytes: the first `descriptors` lower-case descriptors and occasional spaces. */
void reference_letters(uint64_t *state, int descriptors, uint8_t *text, size_t count);

/* Length in bytes of the first word. */
size_t reference_split(const uint8_t *text, size_t count);

/* Encodes the text with tokenizer->merges into ids[count]; returns the number of tokens. */
size_t reference_encode(const train_tokenizer_t *tokenizer, const uint8_t *text, size_t count,
                        uint16_t *ids);

/* Learns merges for a vocabulary of `vocabulary` tokens, including the end token, from a short
 * text; byte b has id byte_ids[b]. Returns the number of merges. */
size_t reference_learn(const uint8_t *text, size_t count, size_t vocabulary,
                       const uint16_t byte_ids[256], train_merge_t *merges);

#endif
