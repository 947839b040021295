/*
 * Where the ranks of a job meet. With a key-value space, rank 0 listens on a free port of all of
 * its interfaces and publishes "coll1/ADDRESSES/PORT/PID/SECRET"; so nothing has to be agreed on
 * beforehand. If it cannot, it publishes that instead, and the others need not wait for it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"
#include "comm/launch/launch.h"
#include "topo/interfaces.h"
#include "transport/connect.h"

#define TAG "coll1/"
#define ADDRESSES_MAX 16
#define TAG_FAILED "coll1!"

/* ---- the text -------------------------------------------------------------------------------*/

static void write_secret(const base_secret_t *secret, char text[2 * BASE_SECRET_BYTES + 1]) {
  static const char digits[] = "0123456789abcdef";
  if (base_secret_is_none(secret)) {
    memcpy(text, "-", 2);
    return;
  }
  for (int i = 0; i < BASE_SECRET_BYTES; i++) {
    text[2 * i] = digits[secret->bytes[i] >> 4];
    text[2 * i + 1] = digits[secret->bytes[i] & 15];
  }
  text[2 * BASE_SECRET_BYTES] = '\0';
}

static int digit_of(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_secret(const char *text, base_secret_t *secret) {
  if (strcmp(text, "-") == 0) return true;
  if (strlen(text) != 2 * (size_t)BASE_SECRET_BYTES) return false;
  for (int i = 0; i < BASE_SECRET_BYTES; i++) {
    int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    secret->bytes[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

void launch_text_write(const rendezvous_address_t *address, char text[LAUNCH_TEXT_BYTES]) {
  char secret[2 * BASE_SECRET_BYTES + 1];
  write_secret(&address->secret, secret);
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

/* ---- addresses of this host -----------------------------------------------------------------*/

/* Appends one to the list, if it fits. */
static void add_address(const topo_interface_t *from, char *list, size_t bytes) {
  char text[INET6_ADDRSTRLEN];
  size_t length = strlen(list);
  const void *address = &((const struct sockaddr_in *)(const void *)&from->address)->sin_addr;
  if (from->address.ss_family == AF_INET6) {
    address = &((const struct sockaddr_in6 *)(const void *)&from->address)->sin6_addr;
  }
  if (inet_ntop(from->address.ss_family, address, text, sizeof text) == NULL) return;
  if (length + strlen(text) + 2 > bytes) return;
  snprintf(list + length, bytes - length, "%s%s", length > 0 ? "," : "", text);
}

/* Sets list to "" if this host has no address that other hosts may reach. */
static coll_status_t list_addresses(char *list, size_t bytes) {
  topo_interface_t found[ADDRESSES_MAX];
  int count;
  list[0] = '\0';
  COLL_TRY(topo_interfaces_find(transport_interfaces(), ADDRESSES_MAX, found, &count));
  for (int i = 0; i < count; i++) add_address(&found[i], list, bytes);
  return COLL_OK;
}

/* ---- rank 0 ---------------------------------------------------------------------------------*/

static coll_status_t start_at(const char *host, rendezvous_address_t *address) {
  snprintf(address->host, sizeof address->host, "%s", host);
  return rendezvous_server_start(address);
}

/* At the address that the user has chosen, else at all of this host's, for which the address gets
 * their list. */
static coll_status_t start_server(const launch_t *launch, rendezvous_address_t *address) {
  const char *chosen = launch_value("COLL_INTERFACE_ADDRESS");
  char list[RENDEZVOUS_HOST_BYTES] = "";
  if (chosen != NULL && strlen(chosen) >= sizeof address->host) {
    return base_fail(COLL_ERROR_INVALID, "COLL_INTERFACE_ADDRESS=%s is too long", chosen);
  }
  if (chosen != NULL) return start_at(chosen, address);
  if (!launch_is_on_one_host(launch)) COLL_TRY(list_addresses(list, sizeof list));
  if (list[0] == '\0') return start_at("127.0.0.1", address);
  coll_status_t status = start_at("::", address);
  if (status != COLL_OK) status = start_at("0.0.0.0", address); /* a host without IPv6 */
  if (status == COLL_OK) memcpy(address->host, list, sizeof list);
  return status;
}

/* The user's secret, if there is one in a file, is better than what a key-value space would show to
 * others. */
static coll_status_t find_secret(rendezvous_address_t *address) {
  return launch_value("COLL_AUTH_FILE") != NULL ? rendezvous_secret_find(address)
                                                : base_secret_create(&address->secret);
}

static coll_status_t publish(const launch_t *launch, uint64_t deadline_ns,
                             rendezvous_address_t *address) {
  char text[LAUNCH_TEXT_BYTES] = TAG_FAILED, why[512];
  coll_status_t failure = find_secret(address);
  if (failure == COLL_OK) failure = start_server(launch, address);
  snprintf(why, sizeof why, "%s", base_last_error());
  if (failure == COLL_OK) {
    rendezvous_address_t shown = *address;
    if (launch_value("COLL_AUTH_FILE") != NULL) base_secret_wipe(&shown.secret);
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

coll_status_t launch_meet(const launch_t *launch, uint64_t deadline_ns,
                          rendezvous_address_t *address) {
  *address = (rendezvous_address_t){0};
  if (launch->kind->store != NULL) {
    return launch->rank == 0 ? publish(launch, deadline_ns, address)
                             : look_up(launch, deadline_ns, address);
  }
  COLL_TRY(launch_variables_address(launch, address));
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
