/* The environment variables (knobs) of this room, and the settings that follow from them and a
 * communicator's config. */
#include <stddef.h>

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
     .help = "the costs by which algorithms are chosen: auto (measured once on rank 0's "
             "machine) or builtin (the same on every machine)"},
    {.name = "COLL_REPRODUCIBLE",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .most = 1,
     .help = "1: the bits of a reduction depend on values, dtype, op and the number of ranks "
             "alone, whatever machine, memory and algorithm; the same on all ranks"},
};

enum { KNOB_TIMEOUT, KNOB_ADDRESS, KNOB_TUNE, KNOB_REPRODUCIBLE, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *comm_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

/* Programs built with an earlier coll.h have a config that ends before later fields. */
#define CONFIG_HAS(config, field)                                  \
  ((config)->struct_bytes >= offsetof(coll_comm_config_t, field) + \
                                 sizeof((config)->field))

coll_status_t comm_agreed_settings(const coll_comm_config_t *config, comm_agreed_t *agreed) {
  int64_t reproducible;
  COLL_TRY(base_knob_integer(&knobs[KNOB_REPRODUCIBLE], &reproducible));
  if (config != NULL && CONFIG_HAS(config, reproducible) && config->reproducible != 0) {
    if (config->reproducible != 1 && config->reproducible != -1) {
      return base_fail(COLL_ERROR_INVALID,
                       "the communicator's config has reproducible %d: give 1 (yes), -1 (no) or 0 "
                       "(what COLL_REPRODUCIBLE says)",
                       config->reproducible);
    }
    reproducible = config->reproducible > 0;
  }
  *agreed = (comm_agreed_t){.reproducible = (int32_t)reproducible};
  return COLL_OK;
}

coll_status_t comm_settings(const coll_comm_config_t *config, const char **address,
                            int *timeout_ms) {
  int64_t timeout;
  COLL_TRY(base_knob_integer(&knobs[KNOB_TIMEOUT], &timeout));
  if (config != NULL) {
    if (!CONFIG_HAS(config, create_timeout_ms) || config->create_timeout_ms < 0) {
      return base_fail(COLL_ERROR_INVALID,
                       "the communicator's config is invalid: start from COLL_COMM_CONFIG_INIT, "
                       "and set no negative timeout");
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
