/* Small word games for error sentences and parsers. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The entry of words[0..count) closest to `word` in edit distance, ties to the first; NULL only
 * when count is 0. For "unknown algorithm 'rnig'; did you mean 'ring'?". */
const char *base_text_nearest(const char *word, const char *const words[], size_t count);

/* Whole text as a decimal integer within [least, most]. */
bool base_text_integer(const char *text, int64_t least, int64_t most, int64_t *value);

/* Whole text as a finite decimal number. */
bool base_text_number(const char *text, double *value);

/* Whole text as a byte count: digits with an optional K, M or G (powers of 1024), either case. */
bool base_text_bytes(const char *text, uint64_t *bytes);

/* "64", "4K", "16M": the form that base_text_bytes reads, exact. Returns `text`. */
const char *base_text_from_bytes(uint64_t bytes, char text[24]);

/* FNV-1a of a text, or of several one after another: goes on from `hash`. */
#define BASE_TEXT_HASH_OF_NOTHING 0xcbf29ce484222325u
uint64_t base_text_hash(uint64_t hash, const char *text);

#endif
