/* Batches follow each other without a barrier, so that no rank waits for the slowest one at the
 * start of a batch. */
#include "bench/timing.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

#define CALLS_MIN 5       /* timed calls, however short the time limit is */
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
 * calls until they take long enough to estimate how many calls fit the limit. */
static coll_status_t warm_up_within(const bench_timed_calls_t *timed,
                                    const bench_timing_options_t *options, int *pair,
                                    int *iterations) {
  double took_ms = 0;
  int count = timed->pair_count;
  COLL_TRY(make_calls(timed, count, pair));
  for (;; count *= 2) {
    uint64_t begin_ns = base_clock_now_ns();
    COLL_TRY(make_calls(timed, count, pair));
    took_ms = (double)(base_clock_now_ns() - begin_ns) * 1e-6;
    COLL_TRY(timed->max(timed->context, &took_ms));
    if (took_ms * WARMUP_FRACTION >= options->time_ms || count >= options->iterations) break;
  }
  double fitting = options->time_ms / (took_ms / count + 1e-9);
  if (fitting < CALLS_MIN) fitting = CALLS_MIN;
  if (fitting < *iterations) *iterations = (int)fitting;
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
  COLL_TRY(timed->barrier(timed->context));
  uint64_t begin_ns = base_clock_now_ns();
  for (int batch = 0; batch < count; batch++) {
    int until = (int)((int64_t)iterations * (batch + 1) / count), first = done;
    COLL_TRY(make_calls(timed, until - first, &pair));
    done = until;
    uint64_t end_ns = base_clock_now_ns();
    batch_us[batch] = (double)(end_ns - begin_ns) * 1e-3 / (until - first);
    begin_ns = end_ns;
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
