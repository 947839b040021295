/*
 * Rank, number of ranks and rendezvous address from a launcher's environment variables. torchrun's
 * come first, because they also give the address. Open MPI, Slurm and PMI (MPICH, Hydra) give rank
 * and size; for them the address is MASTER_ADDR and MASTER_PORT if set, else this host and a port
 * computed from the job's identity.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "comm/rendezvous/launcher.h"
#include "comm/rendezvous/rendezvous.h"
#include "plan/plan.h"

/* A launcher's environment variables. job and step together identify the job; NULL: the launcher
 * sets none. */
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

#define PORT_FIRST 29500 /* torchrun's default */
#define PORT_COUNT 2000  /* ports among which jobs are spread */

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

static coll_status_t read_number(const char *name, int64_t least, int64_t most, int64_t *value) {
  const char *text = value_of(name);
  if (text != NULL && base_text_integer(text, least, most, value)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s=%s: the launcher should set a number from %lld to %lld",
                   name, text != NULL ? text : "", (long long)least, (long long)most);
}

/* A hash of the variables that identify the job; 0: there are none. */
static uint64_t hash_of_job(const launcher_t *launcher) {
  const char *job = value_of(launcher->job), *step = value_of(launcher->step);
  if (job == NULL) return 0;
  uint64_t hash = base_text_hash(BASE_TEXT_HASH_OF_NOTHING, job);
  return step != NULL ? base_text_hash(base_text_hash(hash, "."), step) : hash;
}

/* The same for a launcher that sets none. Each job has a launcher process of its own. */
static uint64_t hash_of_launcher(const launcher_t *launcher) {
  char name[COMM_LAUNCHER_BYTES];
  comm_launcher_identity(launcher->rank, name);
  return base_text_hash(BASE_TEXT_HASH_OF_NOTHING, name);
}

/* torchrun's agent may listen on MASTER_PORT itself, for its key-value store. */
static bool port_is_taken(void) {
  const char *agent = value_of("TORCHELASTIC_USE_AGENT_STORE");
  return agent != NULL && (strcmp(agent, "True") == 0 || strcmp(agent, "1") == 0);
}

static coll_status_t find_address(const launcher_t *launcher, rendezvous_address_t *address) {
  const char *host = value_of("MASTER_ADDR");
  uint64_t job = hash_of_job(launcher);
  int64_t port = PORT_FIRST;
  if (value_of("MASTER_PORT") != NULL) {
    COLL_TRY(read_number("MASTER_PORT", 1, 65535, &port));
    if (port_is_taken()) port = port < 65535 ? port + 1 : port - 1;
  } else if (launcher == &launchers[0]) {
    return base_fail(COLL_ERROR_INVALID,
                     "RANK and WORLD_SIZE are set but MASTER_PORT is not: start the ranks with "
                     "collrun or torchrun, or set MASTER_ADDR and MASTER_PORT");
  } else {
    if (job == 0) job = hash_of_launcher(launcher);
    port = PORT_FIRST + (int64_t)(job % PORT_COUNT);
  }
  *address = (rendezvous_address_t){.port = (uint16_t)port, .job = job};
  if (host == NULL) host = "127.0.0.1";
  int length = snprintf(address->host, sizeof address->host, "%s", host);
  if (length < (int)sizeof address->host) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "MASTER_ADDR=%s: %d bytes are too long a name, the limit is %d: give the "
                   "numeric address",
                   host, length, (int)sizeof address->host - 1);
}

coll_status_t rendezvous_environment(int *rank, int *size, rendezvous_address_t *address) {
  const launcher_t *launcher = find_launcher();
  int64_t found_rank = 0, found_size = 1;
  if (launcher != NULL) {
    COLL_TRY(read_number(launcher->size, 1, PLAN_RANKS_MAX, &found_size));
    COLL_TRY(read_number(launcher->rank, 0, found_size - 1, &found_rank));
  }
  if (found_size > 1) COLL_TRY(find_address(launcher, address));
  *rank = (int)found_rank;
  *size = (int)found_size;
  return COLL_OK;
}

int rendezvous_launcher_pid(void) {
  const launcher_t *launcher = find_launcher();
  return launcher != NULL ? comm_launcher_pid(launcher->rank) : (int)getppid();
}
