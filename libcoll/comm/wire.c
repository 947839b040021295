/* poll before every transfer, so that sockets may be blocking or not. */
#include "comm/wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/deadline.h"

bool wire_send(int fd, const void *data, size_t bytes, uint64_t deadline_ns) {
  const char *next = data;
  while (bytes > 0) {
    if (!base_deadline_poll(fd, POLLOUT, deadline_ns)) return false;
    ssize_t moved = send(fd, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (moved <= 0) return false;
    next += moved;
    bytes -= (size_t)moved;
  }
  return true;
}

bool wire_recv(int fd, void *data, size_t bytes, uint64_t deadline_ns) {
  char *next = data;
  while (bytes > 0) {
    if (!base_deadline_poll(fd, POLLIN, deadline_ns)) return false;
    ssize_t moved = recv(fd, next, bytes, MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (moved <= 0) return false;
    next += moved;
    bytes -= (size_t)moved;
  }
  return true;
}
