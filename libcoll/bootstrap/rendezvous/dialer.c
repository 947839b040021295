/* Names are asked for again every second, because a host that starts again gets a new address. */
#include "bootstrap/rendezvous/dialer.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/net/dial.h"
#include "bootstrap/rendezvous/host_name.h"

#define NAMES_BYTES 1024
#define RESOLVE_NS UINT64_C(1000000000)
#define ATTEMPT_NS UINT64_C(2000000000) /* then a new connection: its first packet may be lost */
#define RETRY_NS UINT64_C(50000000)

/* ---- names ----------------------------------------------------------------------------------*/

/* Appends the addresses of one name. */
static coll_status_t add_name(const char *name, const char *port, base_addresses_t *targets) {
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  COLL_TRY(rendezvous_host_check(name));
  int error = getaddrinfo(name, port, &hints, &found);
  if (error != 0) {
    return base_fail(COLL_ERROR_SYSTEM, "cannot resolve the host '%s': %s", name,
                     error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
  }
  for (const struct addrinfo *each = found; each != NULL && targets->count < BASE_ADDRESSES_MAX;
       each = each->ai_next) {
    targets->at[targets->count++] = base_address_of(each->ai_addr, each->ai_addrlen);
  }
  freeaddrinfo(found);
  return COLL_OK;
}

coll_status_t dialer_resolve_tcp(const char *names, uint16_t port, base_addresses_t *targets) {
  char text[8], copy[NAMES_BYTES];
  coll_status_t failure = COLL_OK;
  memset(targets, 0, sizeof *targets);
  snprintf(text, sizeof text, "%u", (unsigned)port);
  snprintf(copy, sizeof copy, "%s", names);
  for (char *name = copy; name != NULL;) {
    char *comma = strchr(name, ',');
    if (comma != NULL) *comma = '\0';
    coll_status_t status = add_name(name, text, targets);
    if (status != COLL_OK && failure != COLL_ERROR_INVALID) failure = status;
    name = comma != NULL ? comma + 1 : NULL;
  }
  return targets->count > 0 ? COLL_OK : failure;
}

/* ---- attempts -------------------------------------------------------------------------------*/

dialer_t dialer_begin(const rendezvous_address_t *address, const char *host, uint16_t port,
                      const char *who) {
  dialer_t made = {
      .address = address, .host = host, .port = port, .notice = base_wait_notice_begin()};
  snprintf(made.who, sizeof made.who, "%s", who);
  return made;
}

void dialer_failed(dialer_t *dialer, const char *why) {
  if (why != dialer->why) snprintf(dialer->why, sizeof dialer->why, "%s", why);
  base_wait_notice(&dialer->notice, "%s: %s", dialer->who, dialer->why);
}

/* Keeps the targets that are known where the names are not any more. */
static coll_status_t resolve(dialer_t *dialer) {
  base_addresses_t found;
  if (dialer->targets.count > 0 && base_clock_now_ns() < dialer->resolve_ns) return COLL_OK;
  coll_status_t status = dialer->address != NULL
                             ? dialer_resolve(dialer->address, &found)
                             : dialer_resolve_tcp(dialer->host, dialer->port, &found);
  dialer->resolve_ns = base_clock_now_ns() + RESOLVE_NS;
  if (status == COLL_OK) dialer->targets = found;
  if (dialer->targets.count > 0 || status == COLL_OK) return COLL_OK;
  dialer_failed(dialer, base_last_error());
  return status == COLL_ERROR_SYSTEM ? COLL_OK : status;
}

coll_status_t dialer_try(dialer_t *dialer, int turn, uint64_t deadline_ns, int *fd) {
  *fd = -1;
  COLL_TRY(resolve(dialer));
  errno = EHOSTUNREACH;
  if (dialer->targets.count == 0) return COLL_OK;
  uint64_t until_ns = base_clock_now_ns() + ATTEMPT_NS;
  *fd = base_dial_connect(&dialer->targets, turn, until_ns < deadline_ns ? until_ns : deadline_ns);
  if (*fd >= 0) return COLL_OK;
  int error = errno;
  dialer_failed(dialer, strerror(error));
  errno = error;
  return base_dial_may_heal(error) ? COLL_OK : COLL_ERROR_INVALID;
}

coll_status_t dialer_connect(dialer_t *dialer, uint64_t deadline_ns, int *fd) {
  for (;;) {
    COLL_TRY(dialer_try(dialer, 0, deadline_ns, fd));
    if (*fd >= 0) return COLL_OK;
    if (base_clock_now_ns() + RETRY_NS >= deadline_ns || base_cancel_is_requested()) {
      return COLL_ERROR_TIMEOUT;
    }
    base_clock_sleep_ns(RETRY_NS);
  }
}
