/* A word of the list is copied to read it, because numbers are read up to the end of a text. */
#include "tools/gpt/lists.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

bool gpt_list_number(const char **at, double *value, int64_t *count) {
  char word[64];
  size_t length = strcspn(*at, ",");
  if (length == 0 || length >= sizeof word) return false;
  snprintf(word, sizeof word, "%.*s", (int)length, *at);
  char *times = count != NULL ? strchr(word, '*') : NULL;
  const char *number = word;
  if (count != NULL) *count = 1;
  if (times != NULL) {
    *times = '\0';
    number = times + 1;
    if (!base_text_integer(word, 1, GPT_LIST_MAX, count)) return false;
  }
  if (!base_text_number(number, value) || *value < 0) return false;
  *at += length;
  if (**at == ',' && (*at)[1] != '\0') ++*at;
  return true;
}

int gpt_list_numbers(const char *text, double values[]) {
  int used = 0;
  const char *at = text;
  while (*at != '\0') {
    double value;
    int64_t count;
    if (!gpt_list_number(&at, &value, &count) || used + count > GPT_LIST_MAX) return 0;
    for (int64_t i = 0; i < count; i++) values[used++] = value;
  }
  return used;
}
