/* The three runs of bytes that have no printable character of their own are 0-32, 127-160, 173. */
#include "libtrain/data/spelling.h"

#define SPELLINGS (256 + 33 + 34 + 1)

static uint32_t spelling_of(uint8_t byte) {
  if (byte <= 32) return 256 + byte;
  if (byte < 127) return byte;
  if (byte <= 160) return 256 + 33 + (byte - 127);
  return byte == 173 ? 256 + 33 + 34 : byte;
}

/* The byte spelled as the character, -1 for none. */
static int byte_of(uint32_t spelling) {
  if (spelling >= 256 && spelling < 256 + 33) return (int)(spelling - 256);
  if (spelling >= 256 + 33 && spelling < 256 + 33 + 34) return (int)(spelling - 256 - 33 + 127);
  if (spelling == 256 + 33 + 34) return 173;
  return spelling < 256 && spelling_of((uint8_t)spelling) == spelling ? (int)spelling : -1;
}

size_t train_spell(const uint8_t *bytes, size_t count, char *text) {
  size_t length = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t spelling = spelling_of(bytes[i]);
    if (spelling < 128) {
      text[length++] = (char)spelling;
    } else {
      text[length++] = (char)(0xc0 | spelling >> 6);
      text[length++] = (char)(0x80 | (spelling & 0x3f));
    }
  }
  return length;
}

bool train_unspell(const char *text, size_t length, uint8_t *bytes, size_t *count) {
  size_t used = 0;
  for (size_t i = 0; i < length; i++) {
    uint32_t spelling = (uint8_t)text[i];
    if (spelling >= 128) {
      if ((spelling & 0xe0) != 0xc0 || i + 1 == length) return false;
      spelling = (spelling & 0x1f) << 6 | ((uint8_t)text[++i] & 0x3f);
    }
    int byte = byte_of(spelling);
    if (byte < 0) return false;
    bytes[used++] = (uint8_t)byte;
  }
  *count = used;
  return true;
}

void train_bytes_in_order(uint8_t bytes[256]) {
  int count = 0;
  for (uint32_t spelling = 0; spelling < SPELLINGS; spelling++) {
    int byte = byte_of(spelling);
    if (byte >= 0) bytes[count++] = (uint8_t)byte;
  }
}
