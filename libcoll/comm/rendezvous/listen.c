/* The address of a rendezvous server, and the thread that runs it. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/server.h"

#define PORT_RETRY_NS 5000000u
#define PORT_NS (3 * (uint64_t)RENDEZVOUS_LINGER_NS) /* longer than a failed server lingers */

static void *serve(void *argument) {
  rendezvous_server_t *server = argument;
  rendezvous_server_run(server);
  rendezvous_server_destroy(server);
  return NULL;
}

/* A listening socket, or -1 with errno. */
static int listen_once(const struct addrinfo *found) {
  int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static coll_status_t listen_at(const rendezvous_address_t *address, int *listener) {
  char port[8];
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  snprintf(port, sizeof port, "%u", (unsigned)address->port);
  int error = getaddrinfo(address->host, port, &hints, &found);
  if (error != 0) {
    return base_fail(COLL_ERROR_INVALID, "cannot resolve the rendezvous server's host '%s': %s",
                     address->host, gai_strerror(error));
  }
  uint64_t deadline_ns = base_clock_now_ns() + PORT_NS;
  int fd = listen_once(found);
  while (fd < 0 && errno == EADDRINUSE && base_clock_now_ns() < deadline_ns) {
    base_clock_sleep_ns(PORT_RETRY_NS);
    fd = listen_once(found);
  }
  int cause = errno;
  freeaddrinfo(found);
  *listener = fd;
  if (fd >= 0) return COLL_OK;
  errno = cause;
  return base_fail_errno(COLL_ERROR_SYSTEM,
                         "cannot start the rendezvous server at %s port %u (choose another port "
                         "if it is in use)",
                         address->host, (unsigned)address->port);
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

static coll_status_t start_thread(rendezvous_server_t *server) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  int error = pthread_create(&thread, &detached, serve, server);
  pthread_attr_destroy(&detached);
  if (error == 0) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "cannot start the rendezvous server's thread: %s",
                   strerror(error));
}

coll_status_t rendezvous_server_start(rendezvous_address_t *address) {
  rendezvous_server_t *server = NULL;
  int listener = -1;
  COLL_TRY(listen_at(address, &listener));
  uint16_t port = port_of(listener);
  coll_status_t status = rendezvous_server_create(listener, address, address->port == 0, &server);
  if (status != COLL_OK) {
    close(listener);
    return status;
  }
  status = start_thread(server);
  if (status != COLL_OK) {
    rendezvous_server_destroy(server);
    return status;
  }
  address->port = port;
  address->pid = (int32_t)getpid();
  return COLL_OK;
}
