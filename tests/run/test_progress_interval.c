/*
 * A thread that waits in a call calls the progress callback at least every 100 us. In virtual time,
 * which only that thread advances: each time it reads the clock, yields its core or sleeps, by what
 * that takes on an idle machine. So the intervals are the same on a busy one.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "harness/party.h"
#include "harness/virtual_time.h"
#include "run/yield.h"

#define PROMISED_NS 100000u
#define CALLS 500 /* more than the thread makes before it sleeps */
#define READ_NS 1000u
#define YIELD_NS 20000u
#define WAKE_UP_NS 50000u /* what the kernel adds to a sleep */

static _Thread_local bool is_waiting;
static _Atomic int yields, sleeps;

static void pass(uint64_t ns) {
  if (is_waiting) virtual_time_advance(ns);
}

/* ---- what the waiting thread calls (-Wl,--wrap) ----------------------------------------------*/

uint64_t __real_base_clock_now_ns(void);
uint64_t __wrap_base_clock_now_ns(void);
uint64_t __wrap_base_clock_now_ns(void) {
  pass(READ_NS);
  return __real_base_clock_now_ns();
}

/* Transports ask for this before each of their sleeps. */
uint64_t __real_base_clock_limit_ns(uint64_t left_ns);
uint64_t __wrap_base_clock_limit_ns(uint64_t left_ns);
uint64_t __wrap_base_clock_limit_ns(uint64_t left_ns) {
  if (left_ns > 0) pass(left_ns + WAKE_UP_NS);
  if (left_ns > 0 && is_waiting) sleeps++;
  return __real_base_clock_limit_ns(left_ns);
}

void __real_base_clock_sleep_ns(uint64_t duration_ns);
void __wrap_base_clock_sleep_ns(uint64_t duration_ns);
void __wrap_base_clock_sleep_ns(uint64_t duration_ns) {
  pass(duration_ns + WAKE_UP_NS);
  if (is_waiting) sleeps++;
  __real_base_clock_sleep_ns(duration_ns);
}

void __real_run_yield(const struct coll_comm *comm, transport_t *transport);
void __wrap_run_yield(const struct coll_comm *comm, transport_t *transport);
void __wrap_run_yield(const struct coll_comm *comm, transport_t *transport) {
  pass(YIELD_NS);
  if (is_waiting) yields++;
  __real_run_yield(comm, transport);
}

/* ---- the ranks ------------------------------------------------------------------------------*/

typedef struct intervals {
  uint64_t last_ns, longest_ns;
  int calls, of_longest; /* the number of the call at the end of the longest */
} intervals_t;

/* Time passes for the thread that makes these calls, from the first one on. The other rank enters
 * the call when there were enough of them. */
static void note_call(void *context) {
  intervals_t *intervals = context;
  uint64_t now_ns = __real_base_clock_now_ns();
  uint64_t interval_ns = now_ns - intervals->last_ns;
  if (intervals->calls > 0 && interval_ns > intervals->longest_ns) {
    intervals->longest_ns = interval_ns;
    intervals->of_longest = intervals->calls;
  }
  is_waiting = intervals->calls < CALLS;
  intervals->last_ns = now_ns;
  intervals->calls++;
  if (intervals->calls == CALLS) atomic_store((_Atomic int *)harness_board(), 1);
}

static int be_late(party_rank_t *self) {
  const struct timespec pause = {0, 1000000};
  while (atomic_load((_Atomic int *)harness_board()) == 0) nanosleep(&pause, NULL);
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

static int wait_for_rank(party_rank_t *self) {
  const bool *on_stream = self->context;
  coll_stream_t stream = NULL;
  intervals_t intervals = {0};
  virtual_time_freeze();
  if (self->rank == 0) atomic_store((_Atomic int *)harness_board(), 0); /* the party has used it */
  harness_barrier();
  if (self->rank == 1) return be_late(self);
  PARTY_OK(coll_comm_set_progress(self->comm, note_call, &intervals));
  if (*on_stream) PARTY_OK(coll_stream_create(&stream));
  PARTY_OK(coll_barrier(self->comm, stream));
  if (*on_stream) PARTY_OK(coll_stream_sync(stream));
  if (*on_stream) coll_stream_destroy(stream);
  PARTY_OK(coll_comm_set_progress(self->comm, NULL, NULL));
  PARTY_REQUIRE(intervals.calls >= CALLS, "%d callbacks in the call", intervals.calls);
  /* A background thread does not yield. */
  PARTY_REQUIRE((yields > 0 || *on_stream) && sleeps > 0, "%d yields, %d sleeps", yields, sleeps);
  PARTY_REQUIRE(intervals.longest_ns <= PROMISED_NS, "callback %d came after %llu ns",
                intervals.of_longest, (unsigned long long)intervals.longest_ns);
  return 0;
}

static void run(bool on_stream) {
  harness_result_t result;
  virtual_time_begin();
  cr_assert(party_processes(2, 60000, wait_for_rank, &on_stream, &result), "%s", result.text);
}

Test(progress_interval, in_one_host) {
  run(false);
}

Test(progress_interval, between_hosts) {
  setenv("COLL_TRANSPORTS", "tcp", 1);
  run(false);
}

Test(progress_interval, on_a_stream) {
  run(true);
}
