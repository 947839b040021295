/* Text functions for error messages and parsers. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The entry of words[0..count) with the smallest edit distance to `word`, the first in case of a
 * tie; NULL only if count is 0. For "unknown algorithm 'rnig'; did you mean 'ring'?". */
const char *base_text_nearest(const char *word, const char *const words[], size_t count);

/* The entry that somebody who typed `word` may have meant: a few letters are different, swapped or
 * missing, '-' and '_' and small and capital letters are the same. NULL if there is none. */
const char *base_text_suggestion(const char *word, const char *const words[], size_t count);

/* Parses the whole text as a decimal integer in [least, most]. On false *value is unchanged. */
bool base_text_integer(const char *text, int64_t least, int64_t most, int64_t *value);

/* Parses the whole text as a finite decimal number. On false *value is unchanged. */
bool base_text_number(const char *text, double *value);

/* Parses the whole text as a byte count: digits with an optional K, M or G (powers of 1024), in
 * either case. On false *bytes is unchanged. */
bool base_text_bytes(const char *text, uint64_t *bytes);

/* Writes a byte count in the form that base_text_bytes reads ("64", "4K", "16M"), exactly. Returns
 * `text`. */
const char *base_text_from_bytes(uint64_t bytes, char text[24]);

/* Copies the first `length` characters of a text. A word that does not fit ends in "...": it is no
 * number and no known name, and error messages show that it is cut. bytes >= 4. */
void base_text_word(const char *text, size_t length, char *word, size_t bytes);

/* FNV-1a hash of a text. `hash` is the hash of the texts before it, or BASE_TEXT_HASH_OF_NOTHING.
 * */
#define BASE_TEXT_HASH_OF_NOTHING 0xcbf29ce484222325u
uint64_t base_text_hash(uint64_t hash, const char *text);

#endif
