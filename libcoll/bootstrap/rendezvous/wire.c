/* Transfers use MSG_DONTWAIT, so that sockets may be blocking or not; poll does the waiting. */
#include "bootstrap/rendezvous/wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/deadline.h"

/* Counts what one transfer moved. False: the connection was closed or is broken. */
static bool count_moved(ssize_t result, size_t *moved) {
  if (result < 0) return errno == EAGAIN || errno == EINTR;
  *moved += (size_t)result;
  return result > 0;
}

bool wire_send_some(int fd, const void *data, size_t bytes, size_t *moved) {
  if (*moved >= bytes) return true;
  const char *next = (const char *)data + *moved;
  return count_moved(send(fd, next, bytes - *moved, MSG_NOSIGNAL | MSG_DONTWAIT), moved);
}

bool wire_recv_some(int fd, void *data, size_t bytes, size_t *moved) {
  if (*moved >= bytes) return true;
  return count_moved(recv(fd, (char *)data + *moved, bytes - *moved, MSG_DONTWAIT), moved);
}

bool wire_send(int fd, const void *data, size_t bytes, uint64_t deadline_ns) {
  for (size_t moved = 0; moved < bytes;) {
    if (!base_deadline_poll(fd, POLLOUT, deadline_ns)) return false;
    if (!wire_send_some(fd, data, bytes, &moved)) return false;
  }
  return true;
}

bool wire_recv(int fd, void *data, size_t bytes, uint64_t deadline_ns) {
  for (size_t moved = 0; moved < bytes;) {
    if (!base_deadline_poll(fd, POLLIN, deadline_ns)) return false;
    if (!wire_recv_some(fd, data, bytes, &moved)) return false;
  }
  return true;
}
