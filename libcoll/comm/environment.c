/* The environment variables (knobs) of this room, and what they and a config come to. */
#include "base/knob.h"
#include "comm/create.h"

static const char *const tune_words[] = {"auto", "builtin", NULL};
enum { WORD_AUTO, WORD_BUILTIN };

static const base_knob_t knobs[] = {
    {.name = "COLL_TIMEOUT_MS",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "60000",
     .least = 1,
     .most = 86400000,
     .help = "milliseconds to wait for the other ranks when a communicator is made"},
    {.name = "COLL_INTERFACE_ADDRESS",
     .kind = BASE_KNOB_TEXT,
     .fallback = "127.0.0.1",
     .help = "numeric address on which coll_unique_id_create listens"},
    {.name = "COLL_TUNE",
     .kind = BASE_KNOB_WORD,
     .fallback = "auto",
     .words = tune_words,
     .help = "what algorithms are chosen by: auto (the costs of things as rank 0 measured them "
             "once on this machine) or builtin (costs that are the same everywhere)"},
};

enum { KNOB_TIMEOUT, KNOB_ADDRESS, KNOB_TUNE, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *comm_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

coll_status_t comm_settings(const coll_comm_config_t *config, const char **address,
                            int *timeout_ms) {
  int64_t timeout;
  COLL_TRY(base_knob_integer(&knobs[KNOB_TIMEOUT], &timeout));
  if (config != NULL) {
    if (config->struct_bytes < sizeof *config || config->create_timeout_ms < 0) {
      return base_fail(COLL_ERROR_INVALID,
                       "the communicator's config is not one: start from COLL_COMM_CONFIG_INIT, "
                       "with a timeout that is not negative");
    }
    if (config->create_timeout_ms > 0) timeout = config->create_timeout_ms;
  }
  *timeout_ms = (int)timeout;
  *address = base_knob_text(&knobs[KNOB_ADDRESS]);
  return COLL_OK;
}

coll_status_t comm_costs_setting(bool *builtin) {
  int word;
  COLL_TRY(base_knob_word(&knobs[KNOB_TUNE], &word));
  *builtin = word == WORD_BUILTIN;
  return COLL_OK;
}
