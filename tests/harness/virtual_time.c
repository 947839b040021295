/*
 * Replaces base/clock.c at link time. The time is a word that processes share by inheriting its
 * mapping; 0: it is not frozen.
 */
#include "harness/virtual_time.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"

#define LOOK_NS 2000000u
#define NS_PER_S 1000000000u

static _Atomic uint64_t *frozen_ns; /* NULL: the real clock */

static uint64_t real_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void virtual_time_end(void) {
  if (frozen_ns != NULL) munmap(frozen_ns, sizeof *frozen_ns);
  frozen_ns = NULL;
}

void virtual_time_begin(void) {
  virtual_time_end();
  frozen_ns =
      mmap(NULL, sizeof *frozen_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (frozen_ns == MAP_FAILED) abort();
}

void virtual_time_freeze(void) {
  uint64_t not_frozen = 0;
  atomic_compare_exchange_strong(frozen_ns, &not_frozen, real_ns());
}

void virtual_time_advance(uint64_t ns) {
  atomic_fetch_add(frozen_ns, ns);
}

/* ---- base/clock.h ---------------------------------------------------------------------------*/

uint64_t base_clock_now_ns(void) {
  uint64_t now_ns = frozen_ns != NULL ? atomic_load(frozen_ns) : 0;
  return now_ns > 0 ? now_ns : real_ns();
}

/* Every caller in the library looks at the clock, or at what it waits for, and sleeps again. */
void base_clock_sleep_ns(uint64_t duration_ns) {
  uint64_t limit_ns = base_clock_limit_ns(duration_ns);
  struct timespec left = {.tv_sec = (time_t)(limit_ns / NS_PER_S),
                          .tv_nsec = (long)(limit_ns % NS_PER_S)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

uint64_t base_clock_limit_ns(uint64_t left_ns) {
  return frozen_ns != NULL && left_ns > LOOK_NS ? LOOK_NS : left_ns;
}
