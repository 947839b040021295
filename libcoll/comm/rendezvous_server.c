/* The meeting point's address, and the thread that holds the meeting there. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/meeting.h"
#include "comm/rendezvous.h"

#define PORT_RETRY_NS 5000000u
#define PORT_NS (3 * (uint64_t)MEETING_LATE_NS) /* a meeting that has failed gives its port up */

static void *serve(void *argument) {
  meeting_t *meeting = argument;
  meeting_hold(meeting);
  meeting_destroy(meeting);
  return NULL;
}

/* A listening socket, or -1 with errno. */
static int listen_once(const struct addrinfo *address) {
  int on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static coll_status_t listen_at(const rendezvous_place_t *place, int *listener) {
  char port[8];
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  snprintf(port, sizeof port, "%u", (unsigned)place->port);
  int error = getaddrinfo(place->host, port, &hints, &found);
  if (error != 0) {
    return base_fail(COLL_ERROR_INVALID, "cannot resolve the meeting point's host '%s': %s",
                     place->host, gai_strerror(error));
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
                         "cannot open the meeting point at %s port %u (choose another port if it "
                         "is in use)",
                         place->host, (unsigned)place->port);
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

static coll_status_t start_thread(meeting_t *meeting) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  int error = pthread_create(&thread, &detached, serve, meeting);
  pthread_attr_destroy(&detached);
  if (error == 0) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "cannot start the meeting point's thread: %s",
                   strerror(error));
}

coll_status_t rendezvous_open(rendezvous_place_t *place) {
  meeting_t *meeting = NULL;
  int listener = -1;
  COLL_TRY(listen_at(place, &listener));
  uint16_t port = port_of(listener);
  coll_status_t status = meeting_create(listener, place->key, &meeting);
  if (status != COLL_OK) {
    close(listener);
    return status;
  }
  status = start_thread(meeting);
  if (status != COLL_OK) {
    meeting_destroy(meeting);
    return status;
  }
  place->port = port;
  return COLL_OK;
}
