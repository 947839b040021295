/* Reads getenv in each call: knobs are read when a communicator or stream is created, never on the
 * hot path. An empty variable is wrong: a script has set it from one of its own that is not set. */
#include "base/knob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char *text_of(const base_knob_t *knob) {
  const char *text = getenv(knob->name);
  return text != NULL ? text : knob->fallback;
}

coll_status_t base_knob_text(const base_knob_t *knob, const char **text) {
  const char *set = getenv(knob->name);
  if (set != NULL && set[0] == '\0') {
    return base_fail(COLL_ERROR_INVALID, "%s is set but empty: give it a value, or unset it",
                     knob->name);
  }
  *text = text_of(knob);
  return COLL_OK;
}

coll_status_t base_knob_integer(const base_knob_t *knob, int64_t *value) {
  const char *text = knob->fallback;
  int64_t parsed = 0;
  uint64_t bytes = 0;
  bool good;
  COLL_TRY(base_knob_text(knob, &text));
  if (knob->kind == BASE_KNOB_BYTES) {
    good = base_text_bytes(text, &bytes) && bytes >= (uint64_t)knob->min &&
           bytes <= (uint64_t)knob->max;
    parsed = (int64_t)bytes;
  } else {
    good = base_text_integer(text, knob->min, knob->max, &parsed);
  }
  if (!good) {
    return base_fail(COLL_ERROR_INVALID, "%s=%s: give a %s from %lld to %lld", knob->name, text,
                     knob->kind == BASE_KNOB_BYTES ? "size (64K, 1M)" : "whole number",
                     (long long)knob->min, (long long)knob->max);
  }
  *value = parsed;
  return COLL_OK;
}

coll_status_t base_knob_word(const base_knob_t *knob, int *index) {
  const char *text = knob->fallback;
  size_t count = 0;
  COLL_TRY(base_knob_text(knob, &text));
  for (; knob->words[count] != NULL; count++) {
    if (strcmp(text, knob->words[count]) == 0) {
      *index = (int)count;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID, "%s=%s is not a valid value; did you mean '%s'?", knob->name,
                   text, base_text_nearest(text, knob->words, count));
}

void base_knob_describe(const base_knob_t *knob, char *text, size_t bytes) {
  snprintf(text, bytes, "%s=%s (default '%s'): %s", knob->name, text_of(knob), knob->fallback,
           knob->help);
}
