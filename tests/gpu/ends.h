/*
 * Ranks with ends (device/cuda/end.h) on the stand-in's GPUs: threads of one process, or processes.
 */
#ifndef TESTS_GPU_ENDS_H
#define TESTS_GPU_ENDS_H

#include "device/cuda/end.h"
#include "gpu/gpu.h"
#include "gpu/ranks.h"
#include "harness/harness.h"

/* As assertions, for the bodies of ranks. */
#define ENDS_TRY(call)                                                        \
  do {                                                                        \
    if ((call) != 0) return harness_fail("%s: %s", #call, base_last_error()); \
  } while (0)
#define ENDS_EXPECT(condition)                                       \
  do {                                                               \
    if (!(condition)) return harness_fail("not so: %s", #condition); \
  } while (0)

typedef struct ends {
  int gpus;           /* rank r has GPU r modulo this */
  uint32_t protocols; /* as in the config of an end */
  /* For processes: [size][size] of both ends of a socket per pair; NULL: ranks are threads. */
  const int (*sockets)[HARNESS_RANKS_MAX];
} ends_t;

/* A rank. */
typedef struct ends_rank {
  const cuda_driver_t *driver;
  cuda_end_t *end;
  int rank, size, device;
  cuda_stream_t streams[2]; /* that wait for no other stream */
} ends_rank_t;

/* Of a body: makes the rank's end, exchanges records and descriptors with the other ranks, and
 * connects. Like a body, returns 0 or has called harness_fail. */
int ends_open(const ends_t *ends, int rank, int size, ends_rank_t *made);

/* Destroys it, whatever the other ranks are doing. */
int ends_close(ends_rank_t *rank);

typedef struct ends_series {
  ends_t ends;
  const ranks_call_t *calls; /* .slices does not count */
  int call_count;
  int launches; /* of calls in turn, one after another */
  int window;   /* launches between two that are waited for */
  int streams;  /* 1 or 2, which take turns */
  uint64_t seed;
} ends_series_t;

/* A body with a series as its context: launches calls, and checks their results. */
int ends_run_series(int rank, int size, void *series);

/* The request of a call with these buffers. */
cuda_request_t ends_request(const question_t *question, const ranks_buffers_t *buffers);

/* Runs the body in as many threads, or processes on one GPU each, and asserts that all is well. */
void ends_run_threads(int size, harness_body_t body, void *context);
void ends_run_processes(int size, harness_body_t body, ends_t *ends, void *context);

#endif
