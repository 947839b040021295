/*
 * Without libsodium the ranks of a job meet at a UNIX socket, where the kernel says who calls
 * (base/net/handshake_local.c). Its abstract name is made of the port, so that addresses stay what
 * they are with TCP. Network namespaces have names of their own, as they have ports.
 */
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/net/handshake.h"
#include "base/net/listen.h"
#include "bootstrap/rendezvous/dialer.h"
#include "bootstrap/rendezvous/host_name.h"
#include "bootstrap/rendezvous/secret_source.h"
#include "bootstrap/rendezvous/server.h"

#define PORT_FIRST 1024
#define PORT_TRIES 1000

static base_address_t name_of(uint16_t port) {
  base_address_t name = {.local = {.sun_family = AF_UNIX}};
  char *path = name.local.sun_path + 1;
  int bytes =
      snprintf(path, sizeof name.local.sun_path - 1, "libcoll-rendezvous-%u", (unsigned)port);
  name.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
  return name;
}

static coll_status_t check_name(const char *name) {
  bool stays;
  COLL_TRY(rendezvous_host_check(name));
  int error = rendezvous_stays_on_host(name, &stays);
  if (error == 0) return stays ? COLL_OK : base_handshake_check_hosts();
  return base_fail(COLL_ERROR_SYSTEM, "cannot resolve the host '%s': %s", name,
                   gai_strerror(error));
}

static coll_status_t check_host(const rendezvous_address_t *address) {
  char names[RENDEZVOUS_HOST_BYTES];
  snprintf(names, sizeof names, "%s", address->host);
  for (char *name = names; name != NULL;) {
    char *comma = strchr(name, ',');
    if (comma != NULL) *comma = '\0';
    COLL_TRY(check_name(name));
    name = comma != NULL ? comma + 1 : NULL;
  }
  return COLL_OK;
}

/* ---- the server -----------------------------------------------------------------------------*/

static int listen_at(uint16_t port, uint64_t retry_ns) {
  base_address_t name = name_of(port);
  return base_listen(SOCK_STREAM, &name, retry_ns);
}

/* At a port that is free. */
static int listen_anywhere(uint16_t *port) {
  int fd = -1;
  for (int i = 0; fd < 0 && i < PORT_TRIES; i++) {
    uint16_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return -1;
    if (random < PORT_FIRST) continue;
    *port = random;
    fd = listen_at(random, 0);
    if (fd < 0 && errno != EADDRINUSE) return -1;
  }
  return fd;
}

coll_status_t rendezvous_listen(rendezvous_address_t *address, int *listener, uint16_t *port) {
  address->is_here = false;
  if (address->host[0] == '\0') COLL_TRY(base_handshake_check_hosts());
  COLL_TRY(check_host(address));
  *port = address->port;
  *listener = *port == 0 ? listen_anywhere(port) : listen_at(*port, RENDEZVOUS_PORT_NS);
  if (*listener >= 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM,
                         "cannot start the rendezvous server at port %u of this host's UNIX "
                         "sockets (choose another port if it is in use)",
                         (unsigned)*port);
}

/* ---- callers --------------------------------------------------------------------------------*/

coll_status_t dialer_resolve(const rendezvous_address_t *address, base_addresses_t *targets) {
  COLL_TRY(check_host(address));
  *targets = (base_addresses_t){.count = 1, .at = {name_of(address->port)}};
  return COLL_OK;
}
