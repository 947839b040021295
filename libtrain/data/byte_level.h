/*
 * GPT-2's byte-level alphabet (bytes_to_unicode in its code), in which its files write tokens,
 * since their bytes need not be UTF-8. Each byte becomes one printable character: a printable
 * character of Latin-1 represents itself, the other bytes map to U+0100 and following, so that a
 * space becomes U+0120.
 */
#ifndef LIBTRAIN_DATA_BYTE_LEVEL_H
#define LIBTRAIN_DATA_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum UTF-8 bytes of one character of the alphabet. */
#define TRAIN_BYTE_LEVEL_MAX 2

/* Writes bytes[count] in the alphabet, as UTF-8, into text[TRAIN_BYTE_LEVEL_MAX * count], without a
 * terminating zero; returns its length. */
size_t train_byte_level_encode(const uint8_t *bytes, size_t count, char *text);

/* The reverse: text[0..length) to bytes[length] and *count. False when a character is not in the
 * alphabet. */
bool train_byte_level_decode(const char *text, size_t length, uint8_t *bytes, size_t *count);

/* All bytes in the order of their characters, which is the order of GPT-2's first 256 tokens. */
void train_byte_level_alphabet(uint8_t bytes[256]);

#endif
