/* poll before every transfer, so that sockets may be blocking or not. */
#include "comm/wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

int wire_left_ms(uint64_t deadline_ns) {
  uint64_t now_ns = base_clock_now_ns();
  if (deadline_ns <= now_ns) return 0;
  uint64_t ms = (deadline_ns - now_ns) / 1000000u + 1;
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

static bool ready(int fd, short events, uint64_t deadline_ns) {
  struct pollfd poller = {.fd = fd, .events = events};
  int found;
  do {
    found = poll(&poller, 1, wire_left_ms(deadline_ns));
  } while (found < 0 && errno == EINTR);
  return found > 0;
}

bool wire_send(int fd, const void *data, size_t bytes, uint64_t deadline_ns) {
  const char *next = data;
  while (bytes > 0) {
    if (!ready(fd, POLLOUT, deadline_ns)) return false;
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
    if (!ready(fd, POLLIN, deadline_ns)) return false;
    ssize_t moved = recv(fd, next, bytes, MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (moved <= 0) return false;
    next += moved;
    bytes -= (size_t)moved;
  }
  return true;
}
