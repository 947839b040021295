/* Reads --slices. */
#include "tools/gpt/slices.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static coll_status_t reject(const char *text, int most) {
  return base_fail(
      COLL_ERROR_INVALID,
      "--slices %s: give the number of slices, from 1 to %d, or the tokens of each, at "
      "most %d numbers such as 12,10,10",
      text, most, TRAIN_SLICES_MAX);
}

static coll_status_t read_lengths(const char *text, int most, train_slices_t *slices) {
  char word[16];
  for (const char *at = text;; at++) {
    size_t length = strcspn(at, ",");
    int64_t tokens;
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    bool fits = slices->count < TRAIN_SLICES_MAX && length < sizeof word;
    if (!fits || !base_text_integer(word, 1, 1 << 20, &tokens)) return reject(text, most);
    slices->lengths[slices->count++] = (int)tokens;
    at += length;
    if (*at == '\0') return COLL_OK;
  }
}

coll_status_t gpt_slices_read(const char *text, int otherwise, int most, gpt_slices_t *slices) {
  int64_t count = otherwise;
  *slices = (gpt_slices_t){0};
  if (text != NULL && strchr(text, ',') != NULL) {
    COLL_TRY(read_lengths(text, most, &slices->lengths));
    slices->count = slices->lengths.count;
    return COLL_OK;
  }
  if (text != NULL && !base_text_integer(text, 1, most, &count)) return reject(text, most);
  slices->count = (int)count;
  return COLL_OK;
}
