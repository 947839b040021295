/*
 * GPT-2's rule for cutting text into the words that a tokenizer works on, by hand for UTF-8:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * A word is a run of letters, of numbers or of other signs, with the space before it; of longer
 * white space all but the last character is a word of its own.
 */
#ifndef LIBTRAIN_DATA_SPLIT_H
#define LIBTRAIN_DATA_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the first word of text[0..count), at least 1; count > 0. The text has to reach to its
 * very end, since what follows white space decides where it is cut. */
size_t train_split_next(const uint8_t *text, size_t count);

#endif
