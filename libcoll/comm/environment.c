/*
 * What launchers tell their ranks. torchrun's variables come first because they also name the
 * meeting point; Open MPI, Slurm and PMI (MPICH, Hydra) tell rank and size, and for them the
 * meeting point is MASTER_ADDR and MASTER_PORT where set, else this host and a port derived from
 * the job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/knob.h"
#include "base/words.h"
#include "comm/create.h"
#include "comm/rendezvous/launcher.h"

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

/* The variables of a launcher: of a rank, and those that name its job, as far as there are any. */
typedef struct launcher {
  const char *rank, *size, *job, *step;
} launcher_t;

static const launcher_t launchers[] = {
    {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", NULL},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", NULL},
    {"PMI_RANK", "PMI_SIZE", NULL, NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID"},
};

enum { LAUNCHER_COUNT = sizeof launchers / sizeof launchers[0] };

#define PORT_FIRST 29500 /* torchrun's habit */
#define PORT_SPREAD 2000

static const char *value_of(const char *name) {
  const char *text = name != NULL ? getenv(name) : NULL;
  return text != NULL && text[0] != '\0' ? text : NULL;
}

static const launcher_t *find_launcher(void) {
  for (int i = 0; i < LAUNCHER_COUNT; i++) {
    if (value_of(launchers[i].rank) != NULL && value_of(launchers[i].size) != NULL) {
      return &launchers[i];
    }
  }
  return NULL;
}

static coll_status_t number(const char *name, int64_t least, int64_t most, int64_t *value) {
  const char *text = value_of(name);
  if (text != NULL && base_words_integer(text, least, most, value)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s=%s: the launcher should set a number from %lld to %lld",
                   name, text != NULL ? text : "", (long long)least, (long long)most);
}

/* What the launcher's variables say of the job; 0: nothing. */
static uint64_t job_told(const launcher_t *launcher) {
  const char *job = value_of(launcher->job), *step = value_of(launcher->step);
  if (job == NULL) return 0;
  uint64_t hash = base_words_hash(BASE_WORDS_HASH_OF_NOTHING, job);
  return step != NULL ? base_words_hash(base_words_hash(hash, "."), step) : hash;
}

/* The same for one that says nothing: each of its jobs has a process of its own that starts it. */
static uint64_t job_by_starter(const launcher_t *launcher) {
  char name[COMM_LAUNCHER_BYTES];
  comm_launcher_identity(launcher->rank, name);
  return base_words_hash(BASE_WORDS_HASH_OF_NOTHING, name);
}

/* torchrun's agent may hold MASTER_PORT for a store of its own; it says so. */
static bool port_is_taken(void) {
  const char *agent = value_of("TORCHELASTIC_USE_AGENT_STORE");
  return agent != NULL && (strcmp(agent, "True") == 0 || strcmp(agent, "1") == 0);
}

static coll_status_t find_place(const launcher_t *launcher, rendezvous_address_t *place) {
  const char *host = value_of("MASTER_ADDR");
  uint64_t job = job_told(launcher);
  int64_t port = PORT_FIRST;
  if (value_of("MASTER_PORT") != NULL) {
    COLL_TRY(number("MASTER_PORT", 1, 65535, &port));
    if (port_is_taken()) port = port < 65535 ? port + 1 : port - 1;
  } else if (launcher == &launchers[0]) {
    return base_fail(COLL_ERROR_INVALID,
                     "RANK and WORLD_SIZE are set but MASTER_PORT is not: start the ranks with "
                     "collrun or torchrun, or set MASTER_ADDR and MASTER_PORT");
  } else {
    if (job == 0) job = job_by_starter(launcher);
    port = PORT_FIRST + (int64_t)(job % PORT_SPREAD);
  }
  /* The job's name keeps ranks of different jobs on one port apart. */
  *place = (rendezvous_address_t){.port = (uint16_t)port, .key = job};
  int length = snprintf(place->host, sizeof place->host, "%s", host != NULL ? host : "127.0.0.1");
  if (length < (int)sizeof place->host) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "MASTER_ADDR=%s: a name of %d bytes is too long, %d are the most: give the "
                   "numeric address",
                   host, length, (int)sizeof place->host - 1);
}

coll_status_t comm_environment(int *rank, int *size, rendezvous_address_t *place) {
  const launcher_t *launcher = find_launcher();
  int64_t found_rank = 0, found_size = 1;
  if (launcher != NULL) {
    COLL_TRY(number(launcher->size, 1, PLAN_RANKS_MAX, &found_size));
    COLL_TRY(number(launcher->rank, 0, found_size - 1, &found_rank));
  }
  if (found_size > 1) COLL_TRY(find_place(launcher, place));
  *rank = (int)found_rank;
  *size = (int)found_size;
  return COLL_OK;
}
