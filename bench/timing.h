/*
 * How calls are timed, for libcoll and for every peer alike: back to back in a few batches, each
 * batch's mean being one figure. What is timed reaches this by functions alone.
 */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <coll.h>

#define BENCH_BATCHES_MOST 10

/* The calls of one rank. All ranks make the same ones in the same order. */
typedef struct bench_timed {
  void *context; /* the functions' own */
  /* Makes the call on that pair of buffers; it may still run on return. */
  coll_status_t (*call)(void *context, int pair);
  coll_status_t (*settle)(void *context); /* returns when the calls made so far are complete */
  coll_status_t (*meet)(void *context);   /* returns when every rank has come here */
} bench_timed_t;

/* The batches that the iterations make. */
int bench_timing_batches(int iterations);

/* After `warmups` calls makes `iterations` timed ones, rotating among `rotation` pairs. batch_us
 * gets each batch's time per call on this rank and has room for BENCH_BATCHES_MOST. */
coll_status_t bench_timing_run(const bench_timed_t *timed, int warmups, int iterations,
                               int rotation, double *batch_us);

#endif
