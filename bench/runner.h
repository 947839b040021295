/*
 * One rank of a benchmark: its communicator and buffers, and how a row is measured and checked on
 * them. Every rank makes the same calls of this interface in the same order.
 */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include <coll.h>

#include "bench/collectives.h"
#include "bench/layout.h"
#include "bench/outcome.h"
#include "bench/pool.h"
#include "bench/rows.h"
#include "bench/settings.h"

typedef struct bench_runner {
  const bench_settings_t *settings;
  coll_comm_t comm; /* borrowed */
  coll_stream_t stream;
  int rank, ranks;
  bench_pool_t send, recv;
  bench_layout_t layout;
  bench_vectors_t vectors;
  void *scratch, *reports;
  int complaints; /* wrong results told of so far */
} bench_runner_t;

/* Room for all of the rows. */
coll_status_t bench_runner_make(const bench_settings_t *settings, const bench_rows_t *rows,
                                coll_comm_t comm, bench_runner_t *runner);
void bench_runner_free(bench_runner_t *runner);

/* Times and checks the row, first out of place, then in place where the collective has that, as far
 * as the settings ask for it. Tells of this rank's first wrong element on standard error. */
coll_status_t bench_runner_row(bench_runner_t *runner, const bench_row_t *row,
                               bench_outcome_t *out_of_place, bench_outcome_t *in_place);

#endif
