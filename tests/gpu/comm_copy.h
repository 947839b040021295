/*
 * What the tests of communicators on the copy engines share.
 */
#ifndef TESTS_GPU_COMM_COPY_H
#define TESTS_GPU_COMM_COPY_H

#include <stdio.h>

#include "gpu/gpu.h"
#include "harness/party.h"

static inline void copy_begin(int gpus) {
  char text[8];
  snprintf(text, sizeof text, "%d", gpus);
  gpu_setting("COLL_STANDIN_GPUS", text);
}

/* A rank's GPU, with its context current, and streams of it. */
typedef struct side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda[2];
  coll_stream_t streams[2];
} side_t;

static inline int open_side(const party_rank_t *self, side_t *side) {
  side->device = self->rank % *(const int *)self->context;
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, side->device));
  for (int i = 0; i < 2; i++) {
    PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda[i], CUDA_STREAM_NON_BLOCKING,
                                                           0) == CUDA_RESULT_OK,
                  "no stream");
    PARTY_OK(coll_stream_from_cuda(side->cuda[i], &side->streams[i]));
  }
  return 0;
}

static inline int close_side(side_t *side) {
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_stream_destroy(side->streams[i]));
    PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda[i]) == CUDA_RESULT_OK,
                  "the stream is busy");
  }
  cuda_context_leave(side->driver, side->device);
  return 0;
}

/* Processes share GPU 0 and choose the copy engines themselves; threads are told to, on two GPUs. A
 * process that uses CUDA cannot fork, so processes come first; ThreadSanitizer gets none. */
static inline void run(int size, party_body_t body) {
  harness_result_t result;
  int gpus = 1;
  copy_begin(2);
  if (HARNESS_BUILD != HARNESS_THREAD) {
    cr_assert(party_processes(size, 100000, body, &gpus, &result), "%d processes: %s", size,
              result.text);
  }
  gpus = 2;
  gpu_setting("COLL_CUDA_ENGINE", "copy");
  cr_assert(party_threads(size, 100000, body, &gpus, &result), "%d threads: %s", size, result.text);
  gpu_expect_clean();
}

#endif
