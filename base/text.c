/* Levenshtein distance of short words, and strtoll and strtod with all their errors checked. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_LIMIT 64

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t edit_distance(const char *a, const char *b) {
  size_t a_length = strnlen(a, WORD_LIMIT), b_length = strnlen(b, WORD_LIMIT);
  size_t row[WORD_LIMIT + 1];
  for (size_t j = 0; j <= b_length; j++) row[j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      size_t above = row[j];
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      row[j] = smaller(replaced, smaller(above, row[j - 1]) + 1);
      diagonal = above;
    }
  }
  return row[b_length];
}

const char *base_text_nearest(const char *word, const char *const words[], size_t count) {
  const char *nearest = NULL;
  size_t least = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    size_t distance = edit_distance(word, words[i]);
    if (distance < least) {
      least = distance;
      nearest = words[i];
    }
  }
  return nearest;
}

bool base_text_integer(const char *text, int64_t least, int64_t most, int64_t *value) {
  char *end;
  errno = 0;
  long long parsed = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || isspace((unsigned char)text[0])) return false;
  if (parsed < least || parsed > most) return false;
  *value = parsed;
  return true;
}

bool base_text_number(const char *text, double *value) {
  char *end;
  errno = 0;
  double parsed = strtod(text, &end);
  if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(parsed)) {
    return false;
  }
  *value = parsed;
  return true;
}

bool base_text_bytes(const char *text, uint64_t *bytes) {
  if (!isdigit((unsigned char)text[0])) return false;
  char *end;
  errno = 0;
  unsigned long long parsed = strtoull(text, &end, 10);
  if (errno != 0) return false;
  int shift = 0;
  switch (toupper((unsigned char)*end)) {
    case 'K': shift = 10; break;
    case 'M': shift = 20; break;
    case 'G': shift = 30; break;
    default: break;
  }
  if (shift != 0) end++;
  if (*end != '\0' || parsed > (UINT64_MAX >> shift)) return false;
  *bytes = (uint64_t)parsed << shift;
  return true;
}

const char *base_text_from_bytes(uint64_t bytes, char text[24]) {
  static const char suffix[] = {'G', 'M', 'K'};
  for (int i = 0; i < 3; i++) {
    int shift = 30 - 10 * i;
    uint64_t unit = (uint64_t)1 << shift;
    if (bytes >= unit && bytes % unit == 0) {
      snprintf(text, 24, "%" PRIu64 "%c", bytes >> shift, suffix[i]);
      return text;
    }
  }
  snprintf(text, 24, "%" PRIu64, bytes);
  return text;
}

void base_text_word(const char *text, size_t length, char *word, size_t bytes) {
  bool fits = length < bytes;
  size_t copied = fits ? length : bytes - sizeof "...";
  memcpy(word, text, copied);
  snprintf(word + copied, bytes - copied, "%s", fits ? "" : "...");
}

uint64_t base_text_hash(uint64_t hash, const char *text) {
  for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}
