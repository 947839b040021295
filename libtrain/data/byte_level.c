/* The bytes without a printable character of their own are 0-32, 127-160 and 173. */
#include "libtrain/data/byte_level.h"

#define CHARS (256 + 33 + 34 + 1)

static uint32_t char_of_byte(uint8_t byte) {
  if (byte <= 32) return 256 + byte;
  if (byte < 127) return byte;
  if (byte <= 160) return 256 + 33 + (byte - 127);
  return byte == 173 ? 256 + 33 + 34 : byte;
}

/* The byte that the character represents; -1 for none. */
static int byte_of_char(uint32_t point) {
  if (point >= 256 && point < 256 + 33) return (int)(point - 256);
  if (point >= 256 + 33 && point < 256 + 33 + 34) return (int)(point - 256 - 33 + 127);
  if (point == 256 + 33 + 34) return 173;
  return point < 256 && char_of_byte((uint8_t)point) == point ? (int)point : -1;
}

size_t train_byte_level_encode(const uint8_t *bytes, size_t count, char *text) {
  size_t length = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t point = char_of_byte(bytes[i]);
    if (point < 128) {
      text[length++] = (char)point;
    } else {
      text[length++] = (char)(0xc0 | point >> 6);
      text[length++] = (char)(0x80 | (point & 0x3f));
    }
  }
  return length;
}

bool train_byte_level_decode(const char *text, size_t length, uint8_t *bytes, size_t *count) {
  size_t used = 0;
  for (size_t i = 0; i < length; i++) {
    uint32_t point = (uint8_t)text[i];
    if (point >= 128) {
      if ((point & 0xe0) != 0xc0 || i + 1 == length) return false;
      point = (point & 0x1f) << 6 | ((uint8_t)text[++i] & 0x3f);
    }
    int byte = byte_of_char(point);
    if (byte < 0) return false;
    bytes[used++] = (uint8_t)byte;
  }
  *count = used;
  return true;
}

void train_byte_level_alphabet(uint8_t bytes[256]) {
  int count = 0;
  for (uint32_t point = 0; point < CHARS; point++) {
    int byte = byte_of_char(point);
    if (byte >= 0) bytes[count++] = (uint8_t)byte;
  }
}
