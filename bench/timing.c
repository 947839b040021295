/* Batches follow each other without a barrier, so that no rank waits for the slowest one at the
 * start of a batch. Calls that ranks start together wait for a time that the ranks agree on before
 * each call, which is more exact than a barrier, as ranks leave a barrier one after another. */
#include "bench/timing.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

#define CALLS_MIN 5       /* timed calls, however short the time limit is */
#define START_MARGIN 2    /* time between agreement and start, in times that agreeing takes */
#define WARMUP_FRACTION 8 /* the warm-up takes 1/8 of the time limit */

/* Makes `count` calls, the first one on pair *pair, and sets *pair to the next pair. */
static coll_status_t make_calls(const bench_timed_calls_t *timed, int count, int *pair) {
  int next = *pair;
  for (int i = 0; i < count; i++) {
    COLL_TRY(timed->call(timed->context, next));
    if (++next == timed->pair_count) next = 0;
  }
  *pair = next;
  return timed->complete(timed->context);
}

/* Uses every pair once, which pays one-time costs such as mapping it. Then doubles the number of
 * calls until they take long enough to estimate how many calls fit the limit, twice: the first time
 * may be that of a pause, or of ranks that learn that they share a core. */
static coll_status_t warm_up_within(const bench_timed_calls_t *timed,
                                    const bench_timing_options_t *options, int *pair,
                                    int *iterations) {
  double took_ms = 0;
  int count = timed->pair_count;
  COLL_TRY(make_calls(timed, count, pair));
  for (int long_enough = 0; long_enough < 2;) {
    uint64_t begin_ns = base_clock_now_ns();
    COLL_TRY(make_calls(timed, count, pair));
    took_ms = (double)(base_clock_now_ns() - begin_ns) * 1e-6;
    COLL_TRY(timed->max(timed->context, &took_ms));
    bool is_long = took_ms * WARMUP_FRACTION >= options->time_ms || count >= options->iterations;
    long_enough += is_long;
    if (!is_long) count *= 2;
  }
  double fitting = options->time_ms / (took_ms / count + 1e-9);
  if (fitting < CALLS_MIN) fitting = CALLS_MIN;
  if (fitting < *iterations) *iterations = (int)fitting;
  return COLL_OK;
}

/* How long the ranks need to agree on a time. */
static coll_status_t measure_max(const bench_timed_calls_t *timed, double *took_us) {
  COLL_TRY(timed->barrier(timed->context));
  uint64_t begin_ns = base_clock_now_ns();
  *took_us = 0;
  COLL_TRY(timed->max(timed->context, took_us));
  *took_us = (double)(base_clock_now_ns() - begin_ns) * 1e-3;
  return timed->max(timed->context, took_us);
}

/* Waits for a time that all ranks learn of before it comes. */
static coll_status_t wait_for_start(const bench_timed_calls_t *timed, double max_us,
                                    uint64_t *begin_ns) {
  double latest_us = (double)base_clock_now_ns() * 1e-3;
  COLL_TRY(timed->max(timed->context, &latest_us));
  *begin_ns = (uint64_t)((latest_us + START_MARGIN * max_us) * 1e3);
  for (uint64_t now_ns; (now_ns = base_clock_now_ns()) < *begin_ns;) {
    base_clock_sleep_ns(*begin_ns - now_ns);
  }
  return COLL_OK;
}

/* The mean time of `count` calls that ranks start together. */
static coll_status_t time_together(const bench_timed_calls_t *timed, int count, double max_us,
                                   int *pair, double *mean_us) {
  uint64_t sum_ns = 0, begin_ns;
  for (int i = 0; i < count; i++) {
    COLL_TRY(wait_for_start(timed, max_us, &begin_ns));
    COLL_TRY(make_calls(timed, 1, pair));
    sum_ns += base_clock_now_ns() - begin_ns;
  }
  *mean_us = (double)sum_ns * 1e-3 / count;
  return COLL_OK;
}

/* The mean time of `count` calls from *begin_ns, which becomes their end. */
static coll_status_t time_back_to_back(const bench_timed_calls_t *timed, int count, int *pair,
                                       uint64_t *begin_ns, double *mean_us) {
  COLL_TRY(make_calls(timed, count, pair));
  uint64_t end_ns = base_clock_now_ns();
  *mean_us = (double)(end_ns - *begin_ns) * 1e-3 / count;
  *begin_ns = end_ns;
  return COLL_OK;
}

coll_status_t bench_timing_run(const bench_timed_calls_t *timed,
                               const bench_timing_options_t *options, double *batch_us,
                               int *batches) {
  int iterations = options->iterations, pair = 0, done = 0;
  if (options->time_ms > 0) {
    COLL_TRY(warm_up_within(timed, options, &pair, &iterations));
  } else {
    COLL_TRY(make_calls(timed, options->warmups, &pair));
  }
  int count = iterations < BENCH_BATCHES_MAX ? iterations : BENCH_BATCHES_MAX;
  double max_us = 0;
  if (options->together) COLL_TRY(measure_max(timed, &max_us));
  COLL_TRY(timed->barrier(timed->context));
  uint64_t begin_ns = base_clock_now_ns();
  for (int batch = 0; batch < count; batch++) {
    int until = (int)((int64_t)iterations * (batch + 1) / count), calls = until - done;
    done = until;
    if (options->together) {
      COLL_TRY(time_together(timed, calls, max_us, &pair, &batch_us[batch]));
    } else {
      COLL_TRY(time_back_to_back(timed, calls, &pair, &begin_ns, &batch_us[batch]));
    }
  }
  *batches = count;
  return COLL_OK;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_timing_median(double *times, int count) {
  qsort(times, (size_t)count, sizeof *times, compare);
  return (times[(count - 1) / 2] + times[count / 2]) / 2;
}
