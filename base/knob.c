/* Reads getenv in each call: knobs are read when a communicator or stream is created, never on the
 * hot path. An empty variable is wrong: a script has set it from one of its own that is not set. */
#include "base/knob.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* A default that was set: never changed, nor freed, as a text of it may be in use. */
typedef struct preset {
  const base_knob_t *knob;
  struct preset *next; /* set before it */
  const char *value, *source;
  char texts[];
} preset_t;

static _Atomic(preset_t *) presets;

bool base_knob_is_set(const base_knob_t *knob) {
  return getenv(knob->name) != NULL;
}

static const preset_t *preset_of(const base_knob_t *knob) {
  if (base_knob_is_set(knob)) return NULL;
  const preset_t *preset = atomic_load_explicit(&presets, memory_order_acquire);
  while (preset != NULL && preset->knob != knob) preset = preset->next;
  return preset;
}

coll_status_t base_knob_set_default(const base_knob_t *knob, const char *value,
                                    const char *source) {
  size_t value_bytes = strlen(value) + 1, source_bytes = strlen(source) + 1;
  preset_t *preset;
  COLL_TRY(
      base_alloc(1, sizeof *preset + value_bytes + source_bytes, "a default", (void **)&preset));
  preset->knob = knob;
  preset->value = memcpy(preset->texts, value, value_bytes);
  preset->source = memcpy(preset->texts + value_bytes, source, source_bytes);
  preset->next = atomic_load_explicit(&presets, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&presets, &preset->next, preset,
                                                memory_order_release, memory_order_relaxed)) {
  }
  return COLL_OK;
}

/* NULL: nothing is set. */
static const char *set_text(const base_knob_t *knob, const char *configured) {
  const char *text = getenv(knob->name);
  if (text != NULL) return text;
  if (configured != NULL) return configured;
  const preset_t *preset = preset_of(knob);
  return preset != NULL ? preset->value : NULL;
}

const char *base_knob_source(const base_knob_t *knob, const char *configured,
                             char text[BASE_KNOB_SOURCE_BYTES]) {
  const preset_t *preset = preset_of(knob);
  const char *source = configured != NULL ? "the communicator's config"
                       : preset != NULL   ? preset->source
                                          : NULL;
  text[0] = '\0';
  if (source != NULL && !base_knob_is_set(knob)) {
    snprintf(text, BASE_KNOB_SOURCE_BYTES, " (%s)", source);
  }
  return text;
}

coll_status_t base_knob_choose_text(const base_knob_t *knob, const char *configured,
                                    const char **text) {
  const char *set = set_text(knob, configured);
  char source[BASE_KNOB_SOURCE_BYTES];
  if (set != NULL && set[0] == '\0') {
    return base_fail(COLL_ERROR_INVALID, "%s%s is set but empty: give it a value, or unset it",
                     knob->name, base_knob_source(knob, configured, source));
  }
  *text = set != NULL ? set : knob->fallback;
  return COLL_OK;
}

coll_status_t base_knob_text(const base_knob_t *knob, const char **text) {
  return base_knob_choose_text(knob, NULL, text);
}

coll_status_t base_knob_integer(const base_knob_t *knob, int64_t *value) {
  const char *text = knob->fallback;
  char source[BASE_KNOB_SOURCE_BYTES];
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
    return base_fail(COLL_ERROR_INVALID, "%s=%s%s: give a %s from %lld to %lld", knob->name, text,
                     base_knob_source(knob, NULL, source),
                     knob->kind == BASE_KNOB_BYTES ? "size (64K, 1M)" : "whole number",
                     (long long)knob->min, (long long)knob->max);
  }
  *value = parsed;
  return COLL_OK;
}

coll_status_t base_knob_choose_word(const base_knob_t *knob, const char *configured, int *index) {
  const char *text = knob->fallback;
  char source[BASE_KNOB_SOURCE_BYTES];
  size_t count = 0;
  COLL_TRY(base_knob_choose_text(knob, configured, &text));
  for (; knob->words[count] != NULL; count++) {
    if (strcmp(text, knob->words[count]) == 0) {
      *index = (int)count;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID, "%s=%s%s is not a valid value; did you mean '%s'?",
                   knob->name, text, base_knob_source(knob, configured, source),
                   base_text_nearest(text, knob->words, count));
}

coll_status_t base_knob_word(const base_knob_t *knob, int *index) {
  return base_knob_choose_word(knob, NULL, index);
}

const char *base_knob_value(const base_knob_t *knob) {
  const char *set = set_text(knob, NULL);
  return set != NULL ? set : knob->fallback;
}
