/* System calls, repeated if a signal interrupts them. */
#include "base/deadline.h"

#include <errno.h>
#include <limits.h>

#include "base/cancel.h"
#include "base/clock.h"

#define NS_PER_S 1000000000u

uint64_t base_deadline_left_ns(uint64_t deadline_ns) {
  if (deadline_ns == UINT64_MAX) return UINT64_MAX;
  uint64_t now_ns = base_clock_now_ns();
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

static int ms_of(uint64_t ns) {
  uint64_t ms = ns / 1000000u + (ns % 1000000u > 0);
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

int base_deadline_left_ms(uint64_t deadline_ns) {
  return ms_of(base_deadline_left_ns(deadline_ns));
}

int base_deadline_limit_ms(uint64_t left_ns) {
  uint64_t limit_ns = base_clock_limit_ns(left_ns);
  return limit_ns == UINT64_MAX ? -1 : ms_of(limit_ns);
}

struct timespec base_deadline_limit(uint64_t left_ns) {
  uint64_t limit_ns = base_clock_limit_ns(left_ns);
  return (struct timespec){.tv_sec = (time_t)(limit_ns / NS_PER_S),
                           .tv_nsec = (long)(limit_ns % NS_PER_S)};
}

/* Conditions have the kernel's clock, which may not be that of base/clock.h. */
void base_deadline_condition(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

void base_deadline_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t left_ns) {
  struct timespec limit = base_deadline_limit(left_ns), until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += limit.tv_sec;
  until.tv_nsec += limit.tv_nsec;
  if (until.tv_nsec >= NS_PER_S) {
    until.tv_nsec -= NS_PER_S;
    until.tv_sec++;
  }
  (void)pthread_cond_timedwait(condition, lock, &until);
}

/* The deadline, or the next time at which to look whether the wait is cancelled. */
static uint64_t next_look(uint64_t deadline_ns) {
  if (!base_cancel_is_possible()) return deadline_ns;
  uint64_t look_ns = base_clock_now_ns() + BASE_CANCEL_CHECK_NS;
  return look_ns < deadline_ns ? look_ns : deadline_ns;
}

bool base_deadline_poll_any(struct pollfd polled[], nfds_t count, uint64_t deadline_ns) {
  for (;;) {
    uint64_t until_ns = next_look(deadline_ns);
    if (base_cancel_is_requested()) return false;
    int limit_ms = base_deadline_limit_ms(base_deadline_left_ns(until_ns));
    int found = poll(polled, count, limit_ms);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
    if (found == 0 && base_deadline_left_ns(deadline_ns) == 0) return false;
  }
}

bool base_deadline_poll(int fd, short events, uint64_t deadline_ns) {
  struct pollfd polled = {.fd = fd, .events = events};
  return base_deadline_poll_any(&polled, 1, deadline_ns);
}
