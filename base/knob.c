/* Reads getenv in each call: knobs are read when a communicator or stream is created, never on the
 * hot path. An empty variable is wrong: a script has set it from one of its own that is not set. */
#include "base/knob.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* A default that was set: never changed, nor freed, as a text of it may be in use. */
typedef struct preset {
  const base_knob_t *knob;
  struct preset *next; /* set before it */
  const char *value, *source;
  char texts[];
} preset_t;

enum { SOURCE_BYTES = 256 };

static _Atomic(preset_t *) presets;

static const preset_t *preset_of(const base_knob_t *knob) {
  if (getenv(knob->name) != NULL) return NULL;
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

static const char *text_of(const base_knob_t *knob) {
  const char *text = getenv(knob->name);
  if (text != NULL) return text;
  const preset_t *preset = preset_of(knob);
  return preset != NULL ? preset->value : knob->fallback;
}

/* " (NCCL_X of /etc/nccl.conf, line 3)" for a value that is not of the knob's own variable. */
static const char *source_of(const base_knob_t *knob, char text[SOURCE_BYTES]) {
  const preset_t *preset = preset_of(knob);
  text[0] = '\0';
  if (preset != NULL) snprintf(text, SOURCE_BYTES, " (%s)", preset->source);
  return text;
}

coll_status_t base_knob_text(const base_knob_t *knob, const char **text) {
  const char *set = text_of(knob);
  char source[SOURCE_BYTES];
  if (set != knob->fallback && set[0] == '\0') {
    return base_fail(COLL_ERROR_INVALID, "%s%s is set but empty: give it a value, or unset it",
                     knob->name, source_of(knob, source));
  }
  *text = set;
  return COLL_OK;
}

coll_status_t base_knob_integer(const base_knob_t *knob, int64_t *value) {
  const char *text = knob->fallback;
  char source[SOURCE_BYTES];
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
                     source_of(knob, source),
                     knob->kind == BASE_KNOB_BYTES ? "size (64K, 1M)" : "whole number",
                     (long long)knob->min, (long long)knob->max);
  }
  *value = parsed;
  return COLL_OK;
}

coll_status_t base_knob_word(const base_knob_t *knob, int *index) {
  const char *text = knob->fallback;
  char source[SOURCE_BYTES];
  size_t count = 0;
  COLL_TRY(base_knob_text(knob, &text));
  for (; knob->words[count] != NULL; count++) {
    if (strcmp(text, knob->words[count]) == 0) {
      *index = (int)count;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID, "%s=%s%s is not a valid value; did you mean '%s'?",
                   knob->name, text, source_of(knob, source),
                   base_text_nearest(text, knob->words, count));
}

void base_knob_describe(const base_knob_t *knob, char *text, size_t bytes) {
  snprintf(text, bytes, "%s=%s (default '%s'): %s", knob->name, text_of(knob), knob->fallback,
           knob->help);
}
