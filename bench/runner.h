/*
 * One rank of a benchmark: owns its buffers, and measures and checks rows on its communicator.
 * Every rank must make the same calls of this interface in the same order.
 */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include <coll.h>

#include "bench/buffer_layout.h"
#include "bench/buffer_pool.h"
#include "bench/collectives.h"
#include "bench/gpu.h"
#include "bench/result.h"
#include "bench/rows.h"
#include "bench/settings.h"

typedef struct bench_runner {
  const bench_settings_t *settings;
  coll_comm_t comm; /* borrowed */
  coll_stream_t stream;
  bench_gpu_t gpu;                      /* open if the buffers are a GPU's memory */
  coll_registration_t registrations[2]; /* of host memory */
  coll_window_t windows[2];             /* of GPU memory */
  int rank, ranks;
  bench_buffer_pool_t send, recv;
  bench_buffer_layout_t layout;
  bench_vectors_t vectors;
  void *scratch, *reports;
  int mismatch_reports; /* wrong results that were printed so far */
} bench_runner_t;

/* Allocates buffers that suffice for all rows. */
coll_status_t bench_runner_make(const bench_settings_t *settings, const bench_rows_t *rows,
                                coll_comm_t comm, bench_runner_t *runner);
void bench_runner_free(bench_runner_t *runner);

/* Times and checks the row, first out of place, then in place if the collective supports that, as
 * the settings ask for. Prints this rank's first wrong element on standard error. */
coll_status_t bench_runner_row(bench_runner_t *runner, const bench_row_t *row,
                               bench_result_t *out_of_place, bench_result_t *in_place);

#endif
