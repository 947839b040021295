/*
 * Waits for descriptors, which another thread cancels.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/deadline.h"

#define MS UINT64_C(1000000)

static void *cancel_soon(void *context) {
  base_cancel_t *cancel = context;
  base_clock_sleep_ns(30 * MS);
  snprintf(cancel->why, sizeof cancel->why, "because");
  atomic_store(&cancel->requested, true);
  return NULL;
}

Test(cancel, ends_a_wait) {
  int ends[2];
  pthread_t thread;
  base_cancel_t cancel = {.requested = false};
  cr_assert_eq(pipe(ends), 0);
  cr_assert(!base_cancel_is_possible() && !base_cancel_is_requested());
  cr_assert_null(base_cancel_watch(&cancel));
  cr_assert(base_cancel_is_possible() && !base_cancel_is_requested());
  cr_assert_str_eq(base_cancel_why(), "");
  pthread_create(&thread, NULL, cancel_soon, &cancel);
  uint64_t begin_ns = base_clock_now_ns();
  cr_assert(!base_deadline_poll(ends[0], POLLIN, begin_ns + 60000 * MS));
  cr_assert_lt(base_clock_now_ns() - begin_ns, 30000 * MS);
  pthread_join(thread, NULL);
  cr_assert_str_eq(base_cancel_why(), "because");
  cr_assert_eq(write(ends[1], "x", 1), 1);
  cr_assert(!base_deadline_poll(ends[0], POLLIN, base_clock_now_ns() + MS));
  cr_assert_eq(base_cancel_watch(NULL), &cancel);
  cr_assert(base_deadline_poll(ends[0], POLLIN, base_clock_now_ns() + MS));
  close(ends[0]);
  close(ends[1]);
}

/* A thread that may be cancelled looks every 20 ms, and still keeps its deadline. */
Test(cancel, leaves_deadlines_as_they_are) {
  int ends[2];
  const base_cancel_t cancel = {.requested = false};
  cr_assert_eq(pipe(ends), 0);
  base_cancel_watch(&cancel);
  uint64_t begin_ns = base_clock_now_ns();
  cr_assert(!base_deadline_poll(ends[0], POLLIN, begin_ns + 50 * MS));
  cr_assert_geq(base_clock_now_ns() - begin_ns, 50 * MS);
  base_cancel_watch(NULL);
  close(ends[0]);
  close(ends[1]);
}
