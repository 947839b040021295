/* CLOCK_MONOTONIC, read through the vDSO without a system call. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

uint64_t base_clock_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void base_clock_sleep_ns(uint64_t duration_ns) {
  struct timespec left = {.tv_sec = (time_t)(duration_ns / 1000000000u),
                          .tv_nsec = (long)(duration_ns % 1000000000u)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

uint64_t base_clock_limit_ns(uint64_t left_ns) {
  return left_ns;
}
