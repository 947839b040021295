/* One loop and a clock. There is no pause between batches, so that no rank waits at the start of
 * each for the slowest. */
#include "bench/timing.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

#define LIMITED_MIN 5 /* calls that no limit of time takes away */
#define WARM_SHARE 8  /* of a limit goes to the warm-up */

/* From pair `*pair` on, which becomes the one behind the last call's. */
static coll_status_t make_calls(const bench_timed_t *timed, int count, int *pair) {
  int next = *pair;
  for (int i = 0; i < count; i++) {
    COLL_TRY(timed->call(timed->context, next));
    if (++next == timed->rotation) next = 0;
  }
  *pair = next;
  return timed->store_fence(timed->context);
}

/* Every pair once, for what happens only once, such as mapping it. Then again, then twice as many
 * calls, and so on until they take long enough to tell by them how many fit the limit. */
static coll_status_t warm_up_within(const bench_timed_t *timed, const bench_effort_t *effort,
                                    int *pair, int *iterations) {
  double took_ms = 0;
  int count = timed->rotation;
  COLL_TRY(make_calls(timed, count, pair));
  for (;; count *= 2) {
    uint64_t begin_ns = base_clock_now_ns();
    COLL_TRY(make_calls(timed, count, pair));
    took_ms = (double)(base_clock_now_ns() - begin_ns) * 1e-6;
    COLL_TRY(timed->greatest(timed->context, &took_ms));
    if (took_ms * WARM_SHARE >= effort->time_ms || count >= effort->iterations) break;
  }
  double fitting = effort->time_ms / (took_ms / count + 1e-9);
  if (fitting < LIMITED_MIN) fitting = LIMITED_MIN;
  if (fitting < *iterations) *iterations = (int)fitting;
  return COLL_OK;
}

coll_status_t bench_timing_run(const bench_timed_t *timed, const bench_effort_t *effort,
                               double *batch_us, int *batches) {
  int iterations = effort->iterations, pair = 0, done = 0;
  if (effort->time_ms > 0) {
    COLL_TRY(warm_up_within(timed, effort, &pair, &iterations));
  } else {
    COLL_TRY(make_calls(timed, effort->warmups, &pair));
  }
  int count = iterations < BENCH_BATCHES_MAX ? iterations : BENCH_BATCHES_MAX;
  COLL_TRY(timed->meet(timed->context));
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

double bench_timing_median(double *figures, int count) {
  qsort(figures, (size_t)count, sizeof *figures, compare);
  return (figures[(count - 1) / 2] + figures[count / 2]) / 2;
}
