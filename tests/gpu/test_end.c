/*
 * Ends of ranks on the stand-in's GPUs: plans of every algorithm, many launches without waiting,
 * two streams, threads that share GPUs, and processes with a GPU each.
 */
#include <stdio.h>

#include "gpu/ends.h"
#include "gpu/standin_kernel.h"
#include "verify/random.h"

#if defined(__SANITIZE_THREAD__)
#define LAUNCHES 30
#else
#define LAUNCHES 200
#endif

TestSuite(end, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void set_gpus(int gpus) {
  char text[8];
  snprintf(text, sizeof text, "%d", gpus);
  gpu_setting("COLL_STANDIN_GPUS", text);
  gpu_setting("COLL_STANDIN_STRICT", "1");
}

/* Every algorithm. */
static ends_series_t all_algorithms(int size, int gpus, ranks_call_t row[RANKS_ROW_MAX]) {
  uint64_t random = (uint64_t)(100 * size + gpus);
  const plan_shape_t shape = {.size = size};
  int count = ranks_row(&random, &shape, row);
  return (ends_series_t){.ends = {.gpus = gpus},
                         .calls = row,
                         .call_count = count,
                         .launches = count,
                         .window = 8,
                         .streams = 1,
                         .seed = random};
}

/* One algorithm. */
static ranks_call_t call_of(coll_collective_t collective, const char *name, int size, size_t count,
                            coll_op_t op) {
  const algo_t *algo;
  cr_assert(algo_find(collective, name, &algo) == COLL_OK, "%s", base_last_error());
  return (ranks_call_t){.algo = algo,
                        .question = {.collective = collective,
                                     .size = size,
                                     .count = count,
                                     .dtype = COLL_FLOAT32,
                                     .op = op,
                                     .seed = count}};
}

/* ---- algorithms ------------------------------------------------------------------------------*/

static void run_all(int size, int gpus) {
  ranks_call_t row[RANKS_ROW_MAX];
  set_gpus(gpus);
  ends_series_t series = all_algorithms(size, gpus, row);
  ends_run_threads(size, ends_run_series, &series);
  cr_assert(standin_kernel_launches() == size * series.launches);
}

Test(end, runs_one_rank) {
  run_all(1, 1);
}

Test(end, runs_two_ranks_of_a_gpu) {
  run_all(2, 1);
}

Test(end, runs_two_gpus) {
  run_all(2, 2);
}

Test(end, runs_four_ranks_of_two_gpus) {
  run_all(4, 2);
}

Test(end, runs_eight_ranks_of_a_gpu) {
  run_all(8, 1);
}

Test(end, runs_eight_gpus) {
  run_all(8, 8);
}

/* ---- many launches ---------------------------------------------------------------------------*/

/* Nothing is waited for, and streams take turns. */
static void run_back_to_back(int size, int gpus, int streams) {
  ranks_call_t row[RANKS_ROW_MAX];
  set_gpus(gpus);
  ends_series_t series = all_algorithms(size, gpus, row);
  series.launches = series.window = LAUNCHES;
  series.streams = streams;
  ends_run_threads(size, ends_run_series, &series);
}

Test(end, runs_calls_back_to_back) {
  run_back_to_back(4, 2, 1);
}

Test(end, orders_calls_of_two_streams) {
  gpu_setting("COLL_STANDIN_DELAY_US", "200");
  run_back_to_back(3, 3, 2);
}

/* More arrays of blocks than a chunk of pinned memory has room for. */
Test(end, keeps_blocks_until_launches_have_read_them) {
  enum { SIZE = 4 };
  ranks_call_t calls[3];
  set_gpus(2);
  for (int i = 0; i < 3; i++) {
    calls[i] = call_of(COLL_ALLTOALLV, "pairwise", SIZE, (size_t)(20 + 50 * i), COLL_SUM);
  }
  ends_series_t series = {.ends = {.gpus = 2},
                          .calls = calls,
                          .call_count = 3,
                          .launches = 3 * LAUNCHES,
                          .window = 3 * LAUNCHES / 2,
                          .streams = 2};
  ends_run_threads(SIZE, ends_run_series, &series);
}

/* Several slices and passes. */
Test(end, runs_large_calls) {
  enum { SIZE = 4 };
  const ranks_call_t calls[] = {
      call_of(COLL_ALLREDUCE, "ring", SIZE, 40000, COLL_SUM),
      call_of(COLL_ALLREDUCE, "staged", SIZE, 90001, COLL_AVG),
      call_of(COLL_ALLGATHER, "ring", SIZE, 33333, COLL_SUM),
      call_of(COLL_ALLTOALLV, "pairwise", SIZE, 100000, COLL_SUM),
  };
  set_gpus(2);
  ends_series_t series = {.ends = {.gpus = 2},
                          .calls = calls,
                          .call_count = 4,
                          .launches = 4,
                          .window = 2,
                          .streams = 1};
  ends_run_threads(SIZE, ends_run_series, &series);
}

/* More slices than the GPU has room for. */
Test(end, runs_large_calls_of_ranks_that_share_a_gpu) {
  enum { SIZE = 8 };
  const ranks_call_t calls[] = {call_of(COLL_ALLREDUCE, "double_tree", SIZE, 130000, COLL_SUM),
                                call_of(COLL_ALLREDUCE, "staged", SIZE, 130000, COLL_SUM)};
  set_gpus(1);
  ends_series_t series = {.ends = {.gpus = 1},
                          .calls = calls,
                          .call_count = 2,
                          .launches = 2,
                          .window = 2,
                          .streams = 1};
  ends_run_threads(SIZE, ends_run_series, &series);
}

/* The ranks' largest blocks differ, so slices must not follow from them. */
Test(end, runs_large_calls_of_uneven_blocks) {
  enum { SIZE = 2, CALLS = 16 };
  ranks_call_t calls[CALLS];
  set_gpus(2);
  for (int i = 0; i < CALLS; i++) {
    calls[i] = call_of(COLL_ALLTOALLV, "pairwise", SIZE, 40000, COLL_SUM);
    calls[i].question.seed = (uint64_t)i;
  }
  ends_series_t series = {.ends = {.gpus = 2},
                          .calls = calls,
                          .call_count = CALLS,
                          .launches = CALLS,
                          .window = 4,
                          .streams = 1};
  ends_run_threads(SIZE, ends_run_series, &series);
}

/* ---- processes -------------------------------------------------------------------------------*/

/* A process that leaves objects or misuses them says so. */
static int run_series_in_process(int rank, int size, void *context) {
  char text[256];
  if (ends_run_series(rank, size, context) != 0) return 1;
  if (standin_leaks(text, sizeof text) > 0) return harness_fail("left: %s", text);
  return standin_misuses() == 0 ? 0 : harness_fail("misuse");
}

static void run_processes(int size) {
  ranks_call_t row[RANKS_ROW_MAX];
  set_gpus(size);
  ends_series_t series = all_algorithms(size, size, row);
  ends_run_processes(size, run_series_in_process, &series.ends, &series);
}

Test(end, runs_two_processes) {
  run_processes(2);
}

Test(end, runs_four_processes) {
  run_processes(4);
}
