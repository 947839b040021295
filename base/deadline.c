/* poll(2), repeated if a signal interrupts it. */
#include "base/deadline.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/cancel.h"
#include "base/clock.h"

int base_deadline_left_ms(uint64_t deadline_ns) {
  uint64_t now_ns = base_clock_now_ns();
  if (deadline_ns <= now_ns) return 0;
  uint64_t ms = (deadline_ns - now_ns) / 1000000u + 1;
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* The deadline, or the next time at which to look whether the wait is cancelled. */
static uint64_t next_look(uint64_t deadline_ns) {
  if (!base_cancel_is_possible()) return deadline_ns;
  uint64_t look_ns = base_clock_now_ns() + BASE_CANCEL_CHECK_NS;
  return look_ns < deadline_ns ? look_ns : deadline_ns;
}

bool base_deadline_poll(int fd, short events, uint64_t deadline_ns) {
  struct pollfd poller = {.fd = fd, .events = events};
  for (;;) {
    uint64_t until_ns = next_look(deadline_ns);
    if (base_cancel_is_requested()) return false;
    int found = poll(&poller, 1, base_deadline_left_ms(until_ns));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
    if (found == 0 && until_ns == deadline_ns) return false;
  }
}

void base_deadline_limit(int fd, uint64_t deadline_ns) {
  int ms = base_deadline_left_ms(deadline_ns);
  const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms > 0 ? ms % 1000 * 1000 : 1};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}
