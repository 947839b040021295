/* Runs the timing loop on fake calls, which only record their buffer pair, by a clock that passes
 * only while a call runs or the loop sleeps: it takes the place of base/clock.c. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "bench/timing.h"

enum { CALLS_MAX = 2000, CALL_NS = 5000, AGREE_NS = 1000000 };

static uint64_t now_ns = 1;

uint64_t base_clock_now_ns(void) {
  return now_ns;
}

void base_clock_sleep_ns(uint64_t duration_ns) {
  now_ns += duration_ns;
}

uint64_t base_clock_limit_ns(uint64_t left_ns) {
  return left_ns;
}

typedef struct log {
  int pairs[CALLS_MAX];
  int calls, completions, barriers;
  int fails_at;     /* the call that fails; -1: none */
  double agreed_us; /* the latest result of max */
  bool early;       /* a call has begun before that */
  bool pauses_once; /* only the first call of max finds another rank slower */
  int agreements;   /* calls of max */
} log_t;

static coll_status_t call(void *context, int pair) {
  log_t *log = context;
  cr_assert_lt(log->calls, CALLS_MAX);
  if (log->calls == log->fails_at) return COLL_ERROR_RANK_LOST;
  log->pairs[log->calls++] = pair;
  log->early = log->early || (double)now_ns * 1e-3 < log->agreed_us;
  now_ns += CALL_NS;
  return COLL_OK;
}

static coll_status_t complete(void *context) {
  ((log_t *)context)->completions++;
  return COLL_OK;
}

static coll_status_t barrier(void *context) {
  ((log_t *)context)->barriers++;
  return COLL_OK;
}

/* Pretends that another rank was slower by that much. */
static coll_status_t max(void *context, double *value) {
  log_t *log = context;
  if (log->agreements++ == 0 || !log->pauses_once) *value += AGREE_NS * 1e-3;
  log->agreed_us = *value;
  now_ns += AGREE_NS;
  return COLL_OK;
}

static coll_status_t run_timed(log_t *log, int pair_count, const bench_timing_options_t *options,
                               int *batches, double batch_us[BENCH_BATCHES_MAX]) {
  const bench_timed_calls_t timed = {.context = log,
                                     .call = call,
                                     .complete = complete,
                                     .barrier = barrier,
                                     .max = max,
                                     .pair_count = pair_count};
  return bench_timing_run(&timed, options, batch_us, batches);
}

static coll_status_t run(log_t *log, int pair_count, const bench_timing_options_t *options,
                         int *batches) {
  double batch_us[BENCH_BATCHES_MAX];
  return run_timed(log, pair_count, options, batches, batch_us);
}

static void assert_rotation(const log_t *log, int pair_count) {
  for (int i = 0; i < log->calls; i++) cr_assert_eq(log->pairs[i], i % pair_count, "call %d", i);
}

Test(timing, rotates_buffers_from_the_warm_up_on) {
  static const bench_timing_options_t options = {.warmups = 6, .iterations = 25};
  for (int pair_count = 1; pair_count <= 5; pair_count++) {
    log_t log = {.fails_at = -1};
    int batches;
    cr_assert_eq(run(&log, pair_count, &options, &batches), COLL_OK);
    cr_assert_eq(batches, BENCH_BATCHES_MAX);
    cr_assert_eq(log.calls, 6 + 25);
    cr_assert_eq(log.completions, 1 + BENCH_BATCHES_MAX);
    cr_assert_eq(log.barriers, 1);
    assert_rotation(&log, pair_count);
  }
}

Test(timing, has_no_more_batches_than_calls) {
  static const bench_timing_options_t options = {.iterations = 3};
  log_t log = {.fails_at = -1};
  int batches;
  cr_assert_eq(run(&log, 2, &options, &batches), COLL_OK);
  cr_assert_eq(batches, 3);
  cr_assert_eq(log.calls, 3);
}

/* Uses each pair once, then twice more; the slowest rank reports a second for the latter. */
Test(timing, makes_few_calls_if_they_are_slow) {
  static const bench_timing_options_t options = {.iterations = 1000, .time_ms = 30};
  log_t log = {.fails_at = -1};
  int batches;
  cr_assert_eq(run(&log, 4, &options, &batches), COLL_OK);
  cr_assert_eq(batches, 5, "%d batches", batches);
  cr_assert_eq(log.calls, 4 + 4 + 4 + 5);
  assert_rotation(&log, 4);
}

/* 1 ms holds 200 calls, rounded down; the eighth of it for which the warm-up lasts, 25. */
Test(timing, is_not_misled_by_one_pause) {
  static const bench_timing_options_t options = {.iterations = 1000, .time_ms = 1};
  log_t log = {.fails_at = -1, .pauses_once = true};
  int batches;
  cr_assert_eq(run(&log, 1, &options, &batches), COLL_OK);
  cr_assert_eq(log.calls, 1 + (1 + 1 + 2 + 4 + 8 + 16 + 32) + 199, "%d calls", log.calls);
}

/* The ranks agree on a start after the latest of them, and the wait for it is no part of the
 * times. */
Test(timing, waits_for_a_common_start) {
  static const bench_timing_options_t options = {.iterations = 25, .together = true};
  log_t log = {.fails_at = -1};
  int batches;
  double batch_us[BENCH_BATCHES_MAX];
  cr_assert_eq(run_timed(&log, 2, &options, &batches, batch_us), COLL_OK);
  cr_assert_eq(log.calls, 25);
  cr_assert_not(log.early);
  cr_assert_eq(batches, BENCH_BATCHES_MAX);
  for (int i = 0; i < batches; i++) cr_assert_eq(batch_us[i], CALL_NS * 1e-3, "%g us", batch_us[i]);
}

Test(timing, stops_at_the_call_that_fails) {
  static const bench_timing_options_t options = {.warmups = 2, .iterations = 20};
  log_t log = {.fails_at = 7};
  int batches;
  cr_assert_eq(run(&log, 2, &options, &batches), COLL_ERROR_RANK_LOST);
  cr_assert_eq(log.calls, 7);
}
