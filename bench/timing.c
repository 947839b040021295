/* One loop and a clock. There is no pause between batches, so that no rank waits at the start of
 * each for the slowest. */
#include "bench/timing.h"

#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

int bench_timing_batches(int iterations) {
  return iterations < BENCH_BATCHES_MOST ? iterations : BENCH_BATCHES_MOST;
}

coll_status_t bench_timing_run(const bench_timed_t *timed, int warmups, int iterations,
                               int rotation, double *batch_us) {
  int batches = bench_timing_batches(iterations), calls = 0, done = 0;
  void *context = timed->context;
  while (calls < warmups) COLL_TRY(timed->call(context, calls++ % rotation));
  COLL_TRY(timed->settle(context));
  COLL_TRY(timed->meet(context));
  uint64_t begin_ns = base_clock_now_ns();
  for (int batch = 0; batch < batches; batch++) {
    int until = (int)((int64_t)iterations * (batch + 1) / batches), first = done;
    for (; done < until; done++) COLL_TRY(timed->call(context, calls++ % rotation));
    COLL_TRY(timed->settle(context));
    uint64_t end_ns = base_clock_now_ns();
    batch_us[batch] = (double)(end_ns - begin_ns) * 1e-3 / (until - first);
    begin_ns = end_ns;
  }
  return COLL_OK;
}
