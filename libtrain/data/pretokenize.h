/*
 * GPT-2's pre-tokenizer: the rule that splits text into words, within which merges are applied.
 * Implemented by hand for UTF-8:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * A word is a run of descriptors, of numbers or of other characters, with one preceding space. Of
 * longer white space all but the last character forms a word of its own.
 */
#ifndef LIBTRAIN_DATA_PRETOKENIZE_H
#define LIBTRAIN_DATA_PRETOKENIZE_H

#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the first word of text[0..count), at least 1; count > 0. `text` must extend to
 * the end of the document, because the split of white space depends on what follows it. */
size_t train_pretokenize_next(const uint8_t *text, size_t count);

#endif
