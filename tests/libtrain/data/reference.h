/*
 * The tokenizer once more, slow and obvious: the split rule alternative by alternative, merges one
 * rank after the other over the whole word, pairs counted anew for every merge. And random text
 * made of what is awkward to tokenize.
 */
#ifndef TESTS_LIBTRAIN_DATA_REFERENCE_H
#define TESTS_LIBTRAIN_DATA_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/tokenizer.h"

/* A generator of its own for a test. */
uint32_t reference_random(uint64_t *state);

/* `count` bytes: letters of several scripts, digits, signs, kinds of white space, contractions, and
 * bytes that are no UTF-8. */
void reference_text(uint64_t *state, uint8_t *text, size_t count);

/* `count` bytes of the first `letters` small letters and, now and then, a space. */
void reference_letters(uint64_t *state, int letters, uint8_t *text, size_t count);

/* Bytes of the first word. */
size_t reference_split(const uint8_t *text, size_t count);

/* The tokens of the text by tokenizer->merges, ids[count] at most; returns how many. */
size_t reference_encode(const train_tokenizer_t *tokenizer, const uint8_t *text, size_t count,
                        uint16_t *ids);

/* Learns merges up to `vocabulary` tokens, with the end, from a short text; bytes have the ids
 * byte_ids. Returns how many. */
size_t reference_learn(const uint8_t *text, size_t count, size_t vocabulary,
                       const uint16_t byte_ids[256], train_merge_t *merges);

#endif
