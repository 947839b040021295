/*
 * How calls are timed, for libcoll and for every peer alike: back to back in a few batches, each
 * batch's mean being one figure. What is timed reaches this by functions alone.
 */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <coll.h>

#define BENCH_BATCHES_MAX 10

/* The calls of one rank. All ranks make the same ones in the same order. */
typedef struct bench_timed {
  void *context; /* the functions' own */
  /* Makes the call on that pair of buffers; it may still run on return. Its own time is part of
   * what is timed, so it only looks up where the buffers are. */
  coll_status_t (*call)(void *context, int pair);
  coll_status_t (*store_fence)(void *context); /* returns when the calls made so far are complete */
  coll_status_t (*meet)(void *context);        /* returns when every rank has come here */
  /* Makes the value the greatest that any rank has; asked only under a limit of time. */
  coll_status_t (*greatest)(void *context, double *value);
  int rotation; /* pairs of buffers, taken in turn */
} bench_timed_t;

typedef struct bench_effort {
  int warmups, iterations; /* calls before those that are timed, and those */
  int time_ms;             /* 0, or a limit: it then decides on the warm-up too */
} bench_effort_t;

/* *batches of calls, as all ranks agree; batch_us gets each one's time per call on this rank and
 * has room for BENCH_BATCHES_MAX. */
coll_status_t bench_timing_run(const bench_timed_t *timed, const bench_effort_t *effort,
                               double *batch_us, int *batches);

/* Their median, of one at least; sorts them. */
double bench_timing_median(double *figures, int count);

#endif
