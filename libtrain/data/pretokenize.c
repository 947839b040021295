/* Tests the alternatives of the regular expression in order; each run has a single character
 * class. */
#include "libtrain/data/pretokenize.h"

#include <assert.h>
#include <string.h>

#include "libtrain/data/unicode.h"

/* Length of the contraction at the start of the text, which begins with an apostrophe; 0 for
 * none. */
static size_t contraction(const uint8_t *text, size_t count) {
  if (count >= 2 && strchr("stmd", text[1]) != NULL && text[1] != '\0') return 2;
  if (count < 3) return 0;
  if (memcmp(text, "'re", 3) == 0 || memcmp(text, "'ve", 3) == 0 || memcmp(text, "'ll", 3) == 0) {
    return 3;
  }
  return 0;
}

/* The end of the run of `expected` characters that includes position `at`. */
static size_t run_end(const uint8_t *text, size_t count, size_t at, train_class_t expected) {
  while (at < count) {
    train_class_t found;
    size_t length = train_unicode_next(text + at, count - at, &found);
    if (found != expected) break;
    at += length;
  }
  return at;
}

/* Length of a white-space word: all but the last character of the run, which is left to the next
 * word. */
static size_t space(const uint8_t *text, size_t count) {
  size_t at = 0, last = 0;
  while (at < count) {
    train_class_t found;
    size_t length = train_unicode_next(text + at, count - at, &found);
    if (found != TRAIN_SPACE) return last > 0 ? last : at;
    last = at;
    at += length;
  }
  return count;
}

size_t train_pretokenize_next(const uint8_t *text, size_t count) {
  assert(count > 0);
  if (text[0] == '\'') {
    size_t length = contraction(text, count);
    if (length > 0) return length;
  }
  size_t first = text[0] == ' ' && count > 1;
  train_class_t found;
  size_t length = train_unicode_next(text + first, count - first, &found);
  if (found == TRAIN_SPACE) return space(text, count);
  return run_end(text, count, first + length, found);
}
