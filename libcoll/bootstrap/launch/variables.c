/*
 * The rendezvous address from environment variables: COLL_ADDRESS, or MASTER_ADDR and MASTER_PORT,
 * or, with launchers that set ranks only, a port computed from the job's identity, on the first
 * host of Slurm's step or on this host. Nothing of this is secret.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "bootstrap/launch/ancestor.h"
#include "bootstrap/launch/launch.h"
#include "bootstrap/rendezvous/secret_source.h"

#define PORT_FIRST 29500 /* torchrun's default */
#define PORT_COUNT 2000  /* ports among which jobs are spread */

/* A hash of the variables that identify the job; 0: there are none. */
static uint64_t hash_of_job(const launch_kind_t *kind) {
  const char *job = launch_value(kind->job), *step = launch_value(kind->step);
  if (job == NULL) return 0;
  uint64_t hash = base_text_hash(BASE_TEXT_HASH_OF_NOTHING, job);
  return step != NULL ? base_text_hash(base_text_hash(hash, "."), step) : hash;
}

/* The same for a launcher that sets none. Each job has a launcher process of its own. */
static uint64_t hash_of_launcher(const launch_kind_t *kind) {
  char name[LAUNCH_ANCESTOR_BYTES];
  launch_ancestor_identity(kind->marker, name);
  return base_text_hash(BASE_TEXT_HASH_OF_NOTHING, name);
}

/* host: of `bytes` characters; an IPv6 address may be in brackets. */
static coll_status_t set_host(const char *variable, const char *host, size_t bytes,
                              rendezvous_address_t *address) {
  if (bytes > 2 && host[0] == '[' && host[bytes - 1] == ']') {
    host++;
    bytes -= 2;
  }
  if (bytes >= sizeof address->host) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s=%.*s: %d bytes are too long a name, the limit is %d: give the numeric "
                     "address",
                     variable, (int)bytes, host, (int)bytes, (int)sizeof address->host - 1);
  }
  memcpy(address->host, host, bytes);
  address->host[bytes] = '\0';
  return COLL_OK;
}

/* host:port or [IPv6 address]:port */
static coll_status_t read_address(rendezvous_address_t *address) {
  const char *text = launch_value("COLL_ADDRESS");
  const char *colon = text != NULL ? strrchr(text, ':') : NULL;
  int64_t port;
  if (text == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_RANK and COLL_SIZE are set but COLL_ADDRESS is not: set it to HOST:PORT "
                     "of rank 0, the same for all ranks");
  }
  if (colon == NULL || colon == text || !base_text_integer(colon + 1, 1, 65535, &port)) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_ADDRESS=%s: give HOST:PORT with a port from 1 to 65535", text);
  }
  address->port = (uint16_t)port;
  size_t bytes = (size_t)(colon - text);
  return set_host("COLL_ADDRESS", text, bytes, address);
}

/* torchrun's agent listens on MASTER_PORT itself, for its store. */
static bool port_is_taken(void) {
  const char *agent = launch_value("TORCHELASTIC_USE_AGENT_STORE");
  return agent != NULL && (strcmp(agent, "True") == 0 || strcmp(agent, "1") == 0);
}

static coll_status_t fail_hosts(const launch_t *launch) {
  bool has_reason = launch->no_store[0] != '\0';
  return base_fail(COLL_ERROR_INVALID,
                   "%s gives ranks on several hosts but no address at which they can meet%s%s%s: "
                   "set MASTER_ADDR to an address of rank 0's host, MASTER_PORT to a free port and "
                   "COLL_AUTH_FILE to a file with a secret",
                   launch->kind->rank, has_reason ? " (" : "", launch->no_store,
                   has_reason ? ")" : "");
}

/* Where no variable says so, the ranks are on this host, unless the launcher says that they are
 * not. */
static coll_status_t find_host(const launch_t *launch, rendezvous_address_t *address) {
  const char *list = launch_value("SLURM_STEP_NODELIST");
  if (list == NULL) list = launch_value("SLURM_NODELIST");
  bool one_host = launch_is_on_one_host(launch);
  if (!one_host && launch->kind->step != NULL && list != NULL) {
    if (launch_slurm_first(list, address->host, sizeof address->host)) return COLL_OK;
    return base_fail(COLL_ERROR_INVALID,
                     "SLURM_STEP_NODELIST=%s: its first host cannot be found: set MASTER_ADDR",
                     list);
  }
  if (!one_host && launch_value(launch->kind->local_size) != NULL) return fail_hosts(launch);
  return set_host("", "127.0.0.1", strlen("127.0.0.1"), address);
}

/* The computed port is that of this host's launcher process: elsewhere it would be another one. */
static coll_status_t check_port_is_common(const launch_t *launch, const char *host) {
  bool stays = false;
  if (launch->kind->job != NULL && launch_value(launch->kind->job) != NULL) return COLL_OK;
  if (launch_is_on_one_host(launch)) return COLL_OK;
  if (rendezvous_stays_on_host(host, &stays) == 0 && stays) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "MASTER_ADDR=%s is set but MASTER_PORT is not: set both, with a port that is "
                   "free on that host",
                   host);
}

/* The host of MASTER_ADDR; without it, that of a launcher that sets ranks only. */
static coll_status_t read_host(const launch_t *launch, rendezvous_address_t *address) {
  const char *host = launch_value("MASTER_ADDR");
  bool is_torch = strcmp(launch->kind->rank, "RANK") == 0;
  if (host != NULL) return set_host("MASTER_ADDR", host, strlen(host), address);
  if (!is_torch) return find_host(launch, address);
  if (launch_is_on_one_host(launch)) {
    return set_host("", "127.0.0.1", strlen("127.0.0.1"), address);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "RANK and WORLD_SIZE are set but MASTER_ADDR is not: set it to an address of "
                   "rank 0's host, 127.0.0.1 if all ranks are on this one");
}

coll_status_t launch_variables_address(const launch_t *launch, rendezvous_address_t *address) {
  const char *host = launch_value("MASTER_ADDR");
  const launch_kind_t *kind = launch->kind;
  bool is_torch = strcmp(kind->rank, "RANK") == 0;
  int64_t port;
  *address = (rendezvous_address_t){.job = hash_of_job(kind)};
  if (strcmp(kind->rank, "COLL_RANK") == 0) return read_address(address);
  if (launch_value("MASTER_PORT") != NULL) {
    COLL_TRY(launch_number("MASTER_PORT", 1, 65535, &port));
    if (port_is_taken()) port = port < 65535 ? port + 1 : port - 1;
  } else if (is_torch) {
    return base_fail(COLL_ERROR_INVALID,
                     "RANK and WORLD_SIZE are set but MASTER_PORT is not: start the ranks with "
                     "collrun or torchrun, or set MASTER_ADDR and MASTER_PORT");
  } else {
    if (host != NULL) COLL_TRY(check_port_is_common(launch, host));
    if (address->job == 0) address->job = hash_of_launcher(kind);
    port = PORT_FIRST + (int64_t)(address->job % PORT_COUNT);
  }
  address->port = (uint16_t)port;
  return read_host(launch, address);
}
