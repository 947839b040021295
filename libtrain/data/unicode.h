/*
 * What a tokenizer has to know of Unicode: where a character ends in UTF-8, and whether it is a
 * letter, a number or white space. The classes come from a table that is kept with the sources, not
 * from the locale, so that text is split alike everywhere.
 */
#ifndef LIBTRAIN_DATA_UNICODE_H
#define LIBTRAIN_DATA_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum train_class {
  TRAIN_OTHER,
  TRAIN_LETTER, /* general category L: \p{L} */
  TRAIN_NUMBER, /* general category N: \p{N} */
  TRAIN_SPACE   /* property White_Space: \s */
} train_class_t;

/* Length and class of the character that text[0..count) begins with; count > 0. A byte that begins
 * no well-formed character (RFC 3629) is a character of its own, of the class TRAIN_OTHER. */
size_t train_unicode_next(const uint8_t *text, size_t count, train_class_t *found);

/* The same for a code point. */
train_class_t train_unicode_class(uint32_t point);

/* Bounds of the classes: see unicode_bounds.c. */
extern const uint32_t train_unicode_bounds[];
extern const size_t train_unicode_bound_count;

#endif
