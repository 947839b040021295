/*
 * How GPT-2's files write tokens, whose bytes need not be UTF-8: each byte as one printable
 * character. Printable ones of Latin 1 stand for themselves, the others for characters from 256 on,
 * so that a space becomes U+0120.
 */
#ifndef LIBTRAIN_DATA_SPELLING_H
#define LIBTRAIN_DATA_SPELLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that a byte's spelling takes at most. */
#define TRAIN_SPELLING_MOST 2

/* Writes the spelling of bytes[count] in UTF-8 into text[TRAIN_SPELLING_MOST * count], without an
 * end mark; returns its length. */
size_t train_spell(const uint8_t *bytes, size_t count, char *text);

/* The bytes that text[0..length) spells into bytes[length]; false when it spells none. */
bool train_unspell(const char *text, size_t length, uint8_t *bytes, size_t *count);

/* The bytes in the order of their spellings, which is the order of GPT-2's first 256 tokens. */
void train_bytes_in_order(uint8_t bytes[256]);

#endif
