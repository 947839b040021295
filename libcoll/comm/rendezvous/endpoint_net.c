/* TCP: where the server listens and where its callers connect. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/socket.h"
#include "comm/rendezvous/dial.h"
#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/server.h"

#define PORT_RETRY_NS 5000000u

/* ---- the server -----------------------------------------------------------------------------*/

/* A listening socket, or -1 with errno. */
static int listen_once(const struct addrinfo *found) {
  int on = 1, fd = base_socket(found->ai_family, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
  int error = errno;
  base_socket_close(fd);
  errno = error;
  return -1;
}

static uint16_t port_of(int listener) {
  struct sockaddr_storage address;
  char port[8];
  socklen_t length = sizeof address;
  if (getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
      getnameinfo((struct sockaddr *)&address, length, NULL, 0, port, sizeof port,
                  NI_NUMERICSERV) != 0) {
    return 0;
  }
  return (uint16_t)strtoul(port, NULL, 10);
}

coll_status_t rendezvous_listen(const rendezvous_address_t *address, int *listener,
                                uint16_t *port) {
  char text[8];
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  snprintf(text, sizeof text, "%u", (unsigned)address->port);
  int error = getaddrinfo(address->host, text, &hints, &found);
  if (error != 0) {
    return base_fail(COLL_ERROR_INVALID, "cannot resolve the rendezvous server's host '%s': %s",
                     address->host, gai_strerror(error));
  }
  uint64_t deadline_ns = base_clock_now_ns() + RENDEZVOUS_PORT_NS;
  int fd = listen_once(found);
  while (fd < 0 && errno == EADDRINUSE && base_clock_now_ns() < deadline_ns) {
    base_clock_sleep_ns(PORT_RETRY_NS);
    fd = listen_once(found);
  }
  int cause = errno;
  freeaddrinfo(found);
  *listener = fd;
  if (fd >= 0) {
    *port = port_of(fd);
    return COLL_OK;
  }
  errno = cause;
  return base_fail_errno(COLL_ERROR_SYSTEM,
                         "cannot start the rendezvous server at %s port %u (choose another port "
                         "if it is in use)",
                         address->host, (unsigned)address->port);
}

/* ---- callers --------------------------------------------------------------------------------*/

/* Appends the addresses of one name. Returns an error of getaddrinfo. */
static int add_name(const char *name, const char *port, dial_targets_t *targets) {
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  int error = getaddrinfo(name, port, &hints, &found);
  if (error != 0) return error;
  for (const struct addrinfo *each = found; each != NULL && targets->count < DIAL_TARGETS;
       each = each->ai_next) {
    memcpy(&targets->at[targets->count], each->ai_addr, each->ai_addrlen);
    targets->lengths[targets->count++] = each->ai_addrlen;
  }
  freeaddrinfo(found);
  return 0;
}

coll_status_t dial_resolve(const rendezvous_address_t *address, dial_targets_t *targets) {
  char port[8], names[RENDEZVOUS_HOST_BYTES];
  int error = EAI_NONAME;
  memset(targets, 0, sizeof *targets);
  snprintf(port, sizeof port, "%u", (unsigned)address->port);
  snprintf(names, sizeof names, "%s", address->host);
  for (char *name = names; name != NULL;) {
    char *comma = strchr(name, ',');
    if (comma != NULL) *comma = '\0';
    int failure = add_name(name, port, targets);
    if (failure != 0) error = failure;
    name = comma != NULL ? comma + 1 : NULL;
  }
  if (targets->count > 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "cannot resolve the rendezvous server's host '%s': %s",
                   address->host, gai_strerror(error));
}
