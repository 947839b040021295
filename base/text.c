/* Edit distance of short words, and strtoll and strtod with all their errors checked. */
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

static char simplify(char c) {
  return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

/* With swapped neighbours as one edit ("optimal string alignment"). */
static size_t edit_distance(const char *a, const char *b) {
  size_t a_length = strnlen(a, WORD_LIMIT), b_length = strnlen(b, WORD_LIMIT);
  size_t rows[3][WORD_LIMIT + 1], *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t j = 0; j <= b_length; j++) above[j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    char letter = simplify(a[i - 1]);
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      char other = simplify(b[j - 1]);
      row[j] = smaller(above[j - 1] + (letter != other), smaller(above[j], row[j - 1]) + 1);
      bool is_swapped =
          i > 1 && j > 1 && letter == simplify(b[j - 2]) && simplify(a[i - 2]) == other;
      if (is_swapped) row[j] = smaller(row[j], before[j - 2] + 1);
    }
    size_t *free_row = before;
    before = above, above = row, row = free_row;
  }
  return above[b_length];
}

static const char *find_nearest(const char *word, const char *const words[], size_t count,
                                size_t *least) {
  const char *nearest = NULL;
  *least = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    size_t distance = edit_distance(word, words[i]);
    if (distance < *least) {
      *least = distance;
      nearest = words[i];
    }
  }
  return nearest;
}

const char *base_text_nearest(const char *word, const char *const words[], size_t count) {
  size_t least;
  return find_nearest(word, words, count, &least);
}

/* The first word that begins with what was typed, of at least three letters. */
static const char *find_beginning(const char *word, const char *const words[], size_t count) {
  size_t length = strlen(word);
  for (size_t i = 0; length >= 3 && i < count; i++) {
    size_t same = 0;
    while (same < length && simplify(word[same]) == simplify(words[i][same])) same++;
    if (same == length) return words[i];
  }
  return NULL;
}

const char *base_text_suggestion(const char *word, const char *const words[], size_t count) {
  size_t least, length = strlen(word);
  const char *nearest = find_nearest(word, words, count, &least);
  const char *longer = find_beginning(word, words, count);
  if (nearest != NULL && least <= 1 + length / 4 && least < length) return nearest;
  return longer;
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
