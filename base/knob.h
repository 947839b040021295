/*
 * Knobs: the COLL_* environment variables. Each module declares a table of its knobs and reads a
 * value through its entry. A wrong value is an error that states what is allowed; it is never
 * ignored. So is an empty one.
 */
#ifndef BASE_KNOB_H
#define BASE_KNOB_H

#include <stdbool.h>
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

/* The same two with what the program has configured, in the form of the variable, for when that is
 * not set; NULL: nothing. It counts before a default that was set. */
coll_status_t base_knob_choose_word(const base_knob_t *knob, const char *configured, int *index);
coll_status_t base_knob_choose_text(const base_knob_t *knob, const char *configured,
                                    const char **text);

/* Whether the variable is set: then nothing that the program has configured counts. */
bool base_knob_is_set(const base_knob_t *knob);

/* Where the value is from if not from the variable, for messages: " (the communicator's config)",
 * " (NCCL_X of /etc/nccl.conf, line 3)", or "". Returns text. */
#define BASE_KNOB_SOURCE_BYTES 256
const char *base_knob_source(const base_knob_t *knob, const char *configured,
                             char text[BASE_KNOB_SOURCE_BYTES]);

/* Sets the value of a knob for when its variable is not set, in place of one that was set before.
 * `source` stands in messages about a wrong value. Callable from any thread. COLL_ERROR_MEMORY. */
coll_status_t base_knob_set_default(const base_knob_t *knob, const char *value, const char *source);

/* Its value as it is written, right or wrong. */
const char *base_knob_value(const base_knob_t *knob);

#endif
