/* poll(2), repeated if a signal interrupts it. */
#include "base/deadline.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"

int base_deadline_left_ms(uint64_t deadline_ns) {
  uint64_t now_ns = base_clock_now_ns();
  if (deadline_ns <= now_ns) return 0;
  uint64_t ms = (deadline_ns - now_ns) / 1000000u + 1;
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

bool base_deadline_poll(int fd, short events, uint64_t deadline_ns) {
  struct pollfd poller = {.fd = fd, .events = events};
  int found;
  do {
    found = poll(&poller, 1, base_deadline_left_ms(deadline_ns));
  } while (found < 0 && errno == EINTR);
  return found > 0;
}

void base_deadline_limit(int fd, uint64_t deadline_ns) {
  int ms = base_deadline_left_ms(deadline_ns);
  const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms > 0 ? ms % 1000 * 1000 : 1};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}
