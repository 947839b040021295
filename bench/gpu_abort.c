/*
 * Aborts a communicator of GPUs in the middle of a call: all ranks are threads, rank 0 leaves the
 * call out, the others wait for it in their kernels, and rank 0 aborts. Prints how long the slowest
 * of the others took to return, in milliseconds. Usage: gpu_abort RANKS
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "base/tool.h"
#include "bench/collectives.h"
#include "bench/gpu.h"

#define RANKS_MAX 64
#define COUNT ((size_t)1 << 20)
#define BEFORE_NS 200000000 /* the others are in their kernels by then */

typedef struct rank {
  int rank;
  coll_comm_t comm;
  uint64_t returned_ns;
  coll_status_t status;
  char text[512];
} rank_t;

static uint64_t aborted_ns; /* written by rank 0's thread before it ends */
static pthread_barrier_t connected;

static coll_status_t call(const rank_t *rank, coll_stream_t stream, void *buffer) {
  return bench_take_error(rank->comm, coll_allreduce(buffer, buffer, COUNT, COLL_FLOAT32, COLL_SUM,
                                                     rank->comm, stream));
}

/* A call in which all take part, so that the ranks are connected. */
static coll_status_t connect(const rank_t *rank, coll_stream_t stream, void *buffer) {
  COLL_TRY(call(rank, stream, buffer));
  return bench_take_error(rank->comm, coll_stream_sync(stream));
}

static coll_status_t wait_in_vain(rank_t *rank, coll_stream_t stream, void *buffer) {
  coll_status_t status = call(rank, stream, buffer);
  if (status == COLL_OK) status = bench_take_error(rank->comm, coll_stream_sync(stream));
  if (status == COLL_OK) status = bench_take_error(rank->comm, coll_comm_error(rank->comm));
  rank->returned_ns = base_clock_now_ns();
  if (status != COLL_OK) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "a call without rank 0 ended without an error");
}

static coll_status_t run(rank_t *rank, bench_gpu_t *gpu, void **buffer, coll_stream_t *stream) {
  COLL_TRY(bench_gpu_open(rank->rank, gpu));
  COLL_TRY(bench_gpu_alloc(COUNT * sizeof(float), buffer));
  COLL_TRY(bench_gpu_stream(gpu, stream));
  COLL_TRY(connect(rank, *stream, *buffer));
  pthread_barrier_wait(&connected);
  if (rank->rank != 0) return wait_in_vain(rank, *stream, *buffer);
  base_clock_sleep_ns(BEFORE_NS);
  aborted_ns = base_clock_now_ns();
  return bench_take_error(NULL, coll_comm_abort(rank->comm));
}

static void *run_rank(void *argument) {
  rank_t *rank = argument;
  bench_gpu_t gpu = {0};
  void *buffer = NULL;
  coll_stream_t stream = NULL;
  rank->status = run(rank, &gpu, &buffer, &stream);
  if (rank->status != COLL_OK) {
    fprintf(stderr, "gpu_abort: rank %d: %s\n", rank->rank, base_last_error());
    exit(1); /* others may wait for this rank */
  }
  (void)coll_comm_destroy(rank->comm);
  (void)coll_stream_destroy(stream);
  bench_gpu_free(buffer);
  bench_gpu_close(&gpu);
  return NULL;
}

static coll_status_t parse(int argc, char **argv, int64_t *count, bool *helped) {
  const base_command_t command = {
      .name = "gpu_abort",
      .usage = "RANKS",
      .summary =
          "Aborts a communicator of GPUs in the middle of a call. Prints how long the "
          "slowest rank took to\nreturn, in milliseconds."};
  int first;
  COLL_TRY(base_options_parse(&command, argc, argv, &first, helped));
  if (*helped) return COLL_OK;
  if (first + 1 == argc && base_text_integer(argv[first], 2, RANKS_MAX, count)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "give the number of ranks, from 2 to %d", RANKS_MAX);
}

static int run_tool(int argc, char **argv) {
  static rank_t ranks[RANKS_MAX];
  static coll_comm_t comms[RANKS_MAX];
  pthread_t threads[RANKS_MAX];
  int64_t count = 0;
  bool helped = false;
  coll_status_t status = parse(argc, argv, &count, &helped);
  if (status != COLL_OK) return base_tool_fail("gpu_abort", status);
  if (helped) return BASE_EXIT_DONE;
  if (bench_take_error(NULL, coll_comm_create_local((int)count, NULL, comms)) != COLL_OK) {
    return base_tool_fail("gpu_abort", COLL_ERROR_SYSTEM);
  }
  pthread_barrier_init(&connected, NULL, (unsigned)count);
  for (int i = 0; i < (int)count; i++) {
    ranks[i] = (rank_t){.rank = i, .comm = comms[i]};
    if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0) continue;
    return base_tool_fail("gpu_abort", base_fail(COLL_ERROR_SYSTEM, "cannot start a thread"));
  }
  uint64_t latest_ns = 0;
  for (int i = 0; i < (int)count; i++) {
    pthread_join(threads[i], NULL);
    if (ranks[i].returned_ns > latest_ns) latest_ns = ranks[i].returned_ns;
  }
  printf("%.3f\n", latest_ns > aborted_ns ? (double)(latest_ns - aborted_ns) * 1e-6 : 0.0);
  return BASE_EXIT_DONE;
}

int main(int argc, char **argv) {
  return base_tool_main("gpu_abort", run_tool, argc, argv);
}
