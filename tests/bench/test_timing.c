/* Which calls are made, by calls that only write down which they are. */
#include <criterion/criterion.h>

#include "bench/timing.h"

enum { CALLS_MAX = 2000 };

typedef struct log {
  int pairs[CALLS_MAX];
  int calls, settled, met;
  int fails_at; /* the call that fails; -1: none */
} log_t;

static coll_status_t call(void *context, int pair) {
  log_t *log = context;
  cr_assert_lt(log->calls, CALLS_MAX);
  if (log->calls == log->fails_at) return COLL_ERROR_RANK_LOST;
  log->pairs[log->calls++] = pair;
  return COLL_OK;
}

static coll_status_t settle(void *context) {
  ((log_t *)context)->settled++;
  return COLL_OK;
}

static coll_status_t meet(void *context) {
  ((log_t *)context)->met++;
  return COLL_OK;
}

/* As if another rank had been that much slower. */
static coll_status_t greatest(void *context, double *value) {
  (void)context;
  *value += 1000;
  return COLL_OK;
}

static coll_status_t run(log_t *log, int rotation, const bench_effort_t *effort, int *batches) {
  const bench_timed_t timed = {.context = log,
                               .call = call,
                               .store_fence = settle,
                               .meet = meet,
                               .greatest = greatest,
                               .rotation = rotation};
  double batch_us[BENCH_BATCHES_MAX];
  return bench_timing_run(&timed, effort, batch_us, batches);
}

static void assert_turns(const log_t *log, int rotation) {
  for (int i = 0; i < log->calls; i++) cr_assert_eq(log->pairs[i], i % rotation, "call %d", i);
}

Test(timing, takes_buffers_in_turn_from_the_warm_up_on) {
  static const bench_effort_t effort = {.warmups = 6, .iterations = 25};
  for (int rotation = 1; rotation <= 5; rotation++) {
    log_t log = {.fails_at = -1};
    int batches;
    cr_assert_eq(run(&log, rotation, &effort, &batches), COLL_OK);
    cr_assert_eq(batches, BENCH_BATCHES_MAX);
    cr_assert_eq(log.calls, 6 + 25);
    cr_assert_eq(log.settled, 1 + BENCH_BATCHES_MAX);
    cr_assert_eq(log.met, 1);
    assert_turns(&log, rotation);
  }
}

Test(timing, makes_no_more_batches_than_calls) {
  static const bench_effort_t effort = {.iterations = 3};
  log_t log = {.fails_at = -1};
  int batches;
  cr_assert_eq(run(&log, 2, &effort, &batches), COLL_OK);
  cr_assert_eq(batches, 3);
  cr_assert_eq(log.calls, 3);
}

/* Each pair once, then once more, which takes a second by what the slowest rank says. */
Test(timing, makes_few_calls_of_what_is_slow) {
  static const bench_effort_t effort = {.iterations = 1000, .time_ms = 30};
  log_t log = {.fails_at = -1};
  int batches;
  cr_assert_eq(run(&log, 4, &effort, &batches), COLL_OK);
  cr_assert_eq(batches, 5, "%d batches", batches);
  cr_assert_eq(log.calls, 4 + 4 + 5);
  assert_turns(&log, 4);
}

Test(timing, ends_with_the_call_that_fails) {
  static const bench_effort_t effort = {.warmups = 2, .iterations = 20};
  log_t log = {.fails_at = 7};
  int batches;
  cr_assert_eq(run(&log, 2, &effort, &batches), COLL_ERROR_RANK_LOST);
  cr_assert_eq(log.calls, 7);
}
