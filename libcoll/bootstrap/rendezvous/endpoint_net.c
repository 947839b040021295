/* TCP: where the server listens and where its callers connect. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>

#include "base/net/listen.h"
#include "bootstrap/rendezvous/dialer.h"
#include "bootstrap/rendezvous/host_name.h"
#include "bootstrap/rendezvous/secret_source.h"
#include "bootstrap/rendezvous/server.h"
#include "topo/interfaces.h"

/* ---- the server -----------------------------------------------------------------------------*/

/* At the first of these addresses that is this host's. */
static int listen_at_one(const struct addrinfo *found, uint16_t *port) {
  int fd = -1;
  errno = EADDRNOTAVAIL;
  for (; found != NULL && fd < 0 && errno == EADDRNOTAVAIL; found = found->ai_next) {
    base_address_t address = base_address_of(found->ai_addr, found->ai_addrlen);
    fd = base_listen(SOCK_STREAM, &address, RENDEZVOUS_PORT_NS);
    if (fd >= 0) *port = base_address_port(&address);
  }
  return fd;
}

/* Whether other hosts know the name as an address of this host, which itself takes it for its
 * loopback interface, as Debian writes it into /etc/hosts ("127.0.1.1 node1"). */
static bool is_loopback_here_alone(const char *host, const struct addrinfo *found) {
  for (; found != NULL; found = found->ai_next) {
    if (!topo_address_is_loopback(found->ai_addr)) return false;
  }
  return !rendezvous_host_is_address(host) && !rendezvous_host_is_localhost(host);
}

/* found: what the host's name resolves to; NULL: nothing. Sets address->is_here and *port. */
static int listen_at(rendezvous_address_t *address, bool is_guarded, const struct addrinfo *found,
                     uint16_t *port) {
  *port = address->port;
  address->is_here =
      address->host[0] == '\0' || (is_guarded && is_loopback_here_alone(address->host, found));
  int fd = address->is_here ? base_listen_everywhere(port, RENDEZVOUS_PORT_NS)
                            : listen_at_one(found, port);
  if (fd >= 0 || address->is_here || !is_guarded || errno != EADDRNOTAVAIL) return fd;
  address->is_here = true;
  return base_listen_everywhere(port, RENDEZVOUS_PORT_NS);
}

static coll_status_t fail_listening(const rendezvous_address_t *address, int error) {
  const char *host = address->is_here ? "all addresses of this host" : address->host;
  if (error == EADDRINUSE) {
    return base_fail(COLL_ERROR_SYSTEM,
                     "cannot start the rendezvous server at %s: port %u is in use: choose another "
                     "one",
                     host, (unsigned)address->port);
  }
  if (error == EADDRNOTAVAIL) {
    return base_fail(COLL_ERROR_INVALID,
                     "cannot start the rendezvous server at %s: that is no address of this host, "
                     "and without a secret (COLL_AUTH_FILE) it does not listen at all of them",
                     host);
  }
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot start the rendezvous server at %s port %u",
                         host, (unsigned)address->port);
}

/* *found: to be freed; NULL: the server listens everywhere, and needs to know no address. */
static coll_status_t resolve(const rendezvous_address_t *address, bool is_guarded,
                             struct addrinfo **found) {
  char port[8];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  *found = NULL;
  if (address->host[0] == '\0') return COLL_OK;
  COLL_TRY(rendezvous_host_check(address->host));
  snprintf(port, sizeof port, "%u", (unsigned)address->port);
  int error = getaddrinfo(address->host, port, &hints, found);
  if (error == 0 || is_guarded) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "cannot resolve the rendezvous server's host '%s': %s",
                   address->host, gai_strerror(error));
}

coll_status_t rendezvous_listen(rendezvous_address_t *address, int *listener, uint16_t *port) {
  struct addrinfo *found;
  bool is_guarded;
  COLL_TRY(rendezvous_is_guarded(address, &is_guarded));
  COLL_TRY(resolve(address, is_guarded, &found));
  *listener = listen_at(address, is_guarded, found, port);
  int cause = errno;
  if (found != NULL) freeaddrinfo(found);
  return *listener >= 0 ? COLL_OK : fail_listening(address, cause);
}

/* ---- callers --------------------------------------------------------------------------------*/

coll_status_t dialer_resolve(const rendezvous_address_t *address, base_addresses_t *targets) {
  return dialer_resolve_tcp(address->is_here ? "127.0.0.1,::1" : address->host, address->port,
                            targets);
}
