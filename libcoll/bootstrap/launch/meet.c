/*
 * Where the ranks of a job meet. With a key-value space, rank 0 listens on a free port of all of
 * its interfaces and publishes "coll1/ADDRESSES/PORT/PID/SECRET"; so nothing has to be agreed on
 * beforehand. If it cannot, it publishes that instead, and the others need not wait for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bootstrap/launch/launch.h"
#include "bootstrap/rendezvous/secret_source.h"

#define TAG "coll1/"
#define TAG_FAILED "coll1!"

/* ---- the text -------------------------------------------------------------------------------*/

static bool read_secret(const char *text, base_secret_t *secret) {
  if (strcmp(text, "-") == 0) return true;
  return strlen(text) == BASE_SECRET_HEX_BYTES && base_secret_from_hex(text, secret);
}

void launch_text_write(const rendezvous_address_t *address, char text[LAUNCH_TEXT_BYTES]) {
  char secret[BASE_SECRET_HEX_BYTES + 1] = "-";
  if (!base_secret_is_none(&address->secret)) base_secret_to_hex(&address->secret, secret);
  snprintf(text, LAUNCH_TEXT_BYTES, TAG "%s/%u/%d/%s", address->host, (unsigned)address->port,
           (int)address->pid, secret);
  explicit_bzero(secret, sizeof secret);
}

/* Ends the field at *text with a zero byte, and moves *text past it. NULL: there is none. */
static char *take_field(char **text) {
  char *field = *text, *end = strchr(field, '/');
  if (end == NULL) return NULL;
  *end = '\0';
  *text = end + 1;
  return field;
}

bool launch_text_read(const char *text, rendezvous_address_t *address) {
  char copy[LAUNCH_TEXT_BYTES];
  int64_t port, pid;
  *address = (rendezvous_address_t){0};
  if (strncmp(text, TAG, strlen(TAG)) != 0 || strlen(text) >= sizeof copy) return false;
  snprintf(copy, sizeof copy, "%s", text + strlen(TAG));
  char *rest = copy, *host = take_field(&rest);
  char *port_text = host != NULL ? take_field(&rest) : NULL;
  char *pid_text = port_text != NULL ? take_field(&rest) : NULL;
  bool is_right = pid_text != NULL && host[0] != '\0' && strlen(host) < sizeof address->host &&
                  base_text_integer(port_text, 1, 65535, &port) &&
                  base_text_integer(pid_text, 0, INT32_MAX, &pid) &&
                  read_secret(rest, &address->secret);
  if (is_right) {
    snprintf(address->host, sizeof address->host, "%s", host);
    address->port = (uint16_t)port;
    address->pid = (int32_t)pid;
  }
  explicit_bzero(copy, sizeof copy);
  return is_right;
}

/* ---- rank 0 ---------------------------------------------------------------------------------*/

/* The user's secret, if there is one in a file, is better than what a key-value space would show to
 * others. */
static coll_status_t find_secret(rendezvous_address_t *address, bool *is_users) {
  COLL_TRY(rendezvous_secret_has_file(is_users));
  return *is_users ? rendezvous_secret_find(address) : base_secret_create(&address->secret);
}

static coll_status_t publish(const launch_t *launch, const char *interfaces, uint64_t deadline_ns,
                             rendezvous_address_t *address) {
  char text[LAUNCH_TEXT_BYTES] = TAG_FAILED, why[512];
  bool is_users = false;
  coll_status_t failure = find_secret(address, &is_users);
  if (failure == COLL_OK) {
    failure = rendezvous_server_start_own(launch_is_on_one_host(launch) ? "127.0.0.1" : "",
                                          interfaces, deadline_ns, address);
  }
  snprintf(why, sizeof why, "%s", base_last_error());
  if (failure == COLL_OK) {
    rendezvous_address_t shown = *address;
    if (is_users) base_secret_wipe(&shown.secret);
    launch_text_write(&shown, text);
    base_secret_wipe(&shown.secret);
  }
  coll_status_t status = launch_share(launch, deadline_ns, text);
  explicit_bzero(text, sizeof text);
  return failure != COLL_OK ? base_fail(failure, "%s", why) : status;
}

static coll_status_t look_up(const launch_t *launch, uint64_t deadline_ns,
                             rendezvous_address_t *address) {
  char text[LAUNCH_TEXT_BYTES] = "";
  COLL_TRY(launch_share(launch, deadline_ns, text));
  bool is_right = launch_text_read(text, address);
  bool has_failed = strcmp(text, TAG_FAILED) == 0;
  explicit_bzero(text, sizeof text);
  if (is_right) return rendezvous_secret_find(address);
  if (has_failed) {
    return base_fail(COLL_ERROR_RANK_LOST,
                     "rank %d: rank 0 could not start the rendezvous server: see its message",
                     launch->rank);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "rank %d: rank 0 has published in %s what this version of the library does not "
                   "understand: install the same version for all ranks",
                   launch->rank, launch->kind->store->name);
}

coll_status_t launch_meet(const launch_t *launch, const char *interfaces, uint64_t deadline_ns,
                          rendezvous_address_t *address) {
  *address = (rendezvous_address_t){0};
  if (launch->kind->store != NULL) {
    return launch->rank == 0 ? publish(launch, interfaces, deadline_ns, address)
                             : look_up(launch, deadline_ns, address);
  }
  COLL_TRY(launch_variables_address(launch, address));
  if (launch->rank == 0) COLL_TRY(rendezvous_address_choose(address));
  COLL_TRY(rendezvous_secret_find(address));
  return launch->rank == 0 ? rendezvous_server_start(address) : COLL_OK;
}

void launch_report(const launch_t *launch, const rendezvous_address_t *address) {
  const launch_kind_t *kind = launch->kind;
  fprintf(stderr, "libcoll: %d ranks meet at %s port %u, which they know from %s%s%s%s\n",
          launch->size, address->host, (unsigned)address->port,
          kind->store != NULL ? kind->store->name : kind->rank,
          launch->no_store[0] != '\0' ? " (" : "", launch->no_store,
          launch->no_store[0] != '\0' ? ")" : "");
}
