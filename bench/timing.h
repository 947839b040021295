/*
 * Times calls of libcoll and of every other library in the same way: back to back, in a few
 * batches. A batch yields the mean time per call. The library is accessed through function pointers
 * only.
 */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <coll.h>

#include <stdbool.h>

#define BENCH_BATCHES_MAX 10

/* The calls of one rank. All ranks make the same calls in the same order. */
typedef struct bench_timed_calls {
  void *context; /* passed to the functions */
  /* Makes the call on that pair of buffers; the call may still run on return. The time of this
   * function is measured too, so it should do nothing but call the library. */
  coll_status_t (*call)(void *context, int pair);
  coll_status_t (*complete)(void *context); /* returns when all calls so far are complete */
  coll_status_t (*barrier)(void *context);  /* returns when every rank has called it */
  /* Sets *value to the maximum over all ranks. Called only with a time limit, or if together. */
  coll_status_t (*max)(void *context, double *value);
  int pair_count; /* pairs of buffers, used in rotation */
} bench_timed_calls_t;

typedef struct bench_timing_options {
  int warmups, iterations; /* numbers of calls: untimed, timed */
  int time_ms;             /* limit for the timed calls; it also sets the warm-up. 0: no limit */
  bool together;           /* not back to back: all ranks start each call at the same time, by the
                              clock of the machine that they share */
} bench_timing_options_t;

/* Makes the calls. batch_us, with room for BENCH_BATCHES_MAX, gets the time per call of each batch
 * on this rank; *batches is the number of batches, the same on all ranks. */
coll_status_t bench_timing_run(const bench_timed_calls_t *timed,
                               const bench_timing_options_t *options, double *batch_us,
                               int *batches);

/* The median of at least one time; sorts the array. */
double bench_timing_median(double *times, int count);

#endif
