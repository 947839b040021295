/*
 * Knobs: the COLL_* environment variables. Each module declares a table of its knobs and reads a
 * value through its entry. A wrong value is an error that states what is allowed; it is never
 * ignored. So is an empty one.
 */
#ifndef BASE_KNOB_H
#define BASE_KNOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum base_knob_kind {
  BASE_KNOB_INTEGER, /* min..max */
  BASE_KNOB_BYTES,   /* min..max, written 64K, 1M */
  BASE_KNOB_WORD,    /* one of words[], NULL-terminated */
  BASE_KNOB_TEXT     /* anything */
} base_knob_kind_t;

typedef struct base_knob {
  const char *name; /* "COLL_TIMEOUT_MS" */
  base_knob_kind_t kind;
  const char *fallback; /* the value when unset, in the same form */
  const char *help;     /* one line: what it does, and the unit */
  int64_t min, max;
  const char *const *words;
} base_knob_t;

/* Value of an INTEGER or BYTES knob. COLL_ERROR_INVALID names the variable, its value and the
 * allowed range. */
coll_status_t base_knob_integer(const base_knob_t *knob, int64_t *value);

/* Value of a WORD knob as an index into its words[]. COLL_ERROR_INVALID suggests the nearest word.
 * */
coll_status_t base_knob_word(const base_knob_t *knob, int *index);

/* Value of a knob as it is written; points into the environment, to the default that was set, or to
 * the fallback. COLL_ERROR_INVALID: the variable, or that default, is set but empty. */
coll_status_t base_knob_text(const base_knob_t *knob, const char **text);

/* Sets the value of a knob for when its variable is not set, in place of one that was set before.
 * `source` stands in messages about a wrong value. Callable from any thread. COLL_ERROR_MEMORY. */
coll_status_t base_knob_set_default(const base_knob_t *knob, const char *value, const char *source);

/* Writes "COLL_X=value (default d): help" to text, truncated to `bytes`. */
void base_knob_describe(const base_knob_t *knob, char *text, size_t bytes);

#endif
