/*
 * UTF-8 decoding and the character classes that the pre-tokenizer needs: descriptor, number, white
 * space. The classes come from a table in the sources instead of the locale, so that all machines
 * split text identically.
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

/* Length and class of the first character of text[0..count); count > 0. A byte that does not start
 * a well-formed character (RFC 3629) counts as a character of class TRAIN_OTHER. */
size_t train_unicode_next(const uint8_t *text, size_t count, train_class_t *found);

/* The class of a code point. */
train_class_t train_unicode_class(uint32_t point);

/* The class boundaries, see unicode_bounds.c. */
extern const uint32_t train_unicode_bounds[];
extern const size_t train_unicode_bound_count;

#endif
