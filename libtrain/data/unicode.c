/* ASCII by table, other characters by binary search in the class boundaries. */
#include "libtrain/data/unicode.h"

#include <assert.h>

#define O TRAIN_OTHER
#define L TRAIN_LETTER
#define N TRAIN_NUMBER
#define S TRAIN_SPACE

static const uint8_t ascii[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O};

train_class_t train_unicode_class(uint32_t point) {
  size_t low = 0, high = train_unicode_bound_count;
  while (high - low > 1) { /* bounds[low] <= point < bounds[high] */
    size_t middle = low + (high - low) / 2;
    if (train_unicode_bounds[middle] >> 2 <= point) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return train_unicode_bounds[low] & 3;
}

/* Length of the sequence that `lead` starts; 0 if no sequence starts with it. */
static size_t sequence_length(uint8_t lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

size_t train_unicode_next(const uint8_t *text, size_t count, train_class_t *found) {
  assert(count > 0);
  if (text[0] < 128) {
    *found = ascii[text[0]];
    return 1;
  }
  static const uint32_t min_points[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t length = sequence_length(text[0]);
  *found = TRAIN_OTHER;
  if (length == 0 || length > count) return 1;
  uint32_t point = text[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 1;
    point = point << 6 | (text[i] & 0x3fu);
  }
  if (point < min_points[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
    return 1;
  *found = train_unicode_class(point);
  return length;
}
