/* What a row came to, and the bandwidths that follow from it. */
#ifndef BENCH_OUTCOME_H
#define BENCH_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/rows.h"

#define BENCH_ALGO_BYTES 32

/* In place or out of place; the same on all ranks. */
typedef struct bench_outcome {
  bool ran; /* false: the collective has no such form */
  /* Per call, of the slowest rank: median, least and most of the batches; 0 when not timed. */
  double time_us, least_us, most_us;
  uint64_t wrong;              /* elements and stray bytes over all ranks */
  char algo[BENCH_ALGO_BYTES]; /* that ran; "" for a call of no elements */
} bench_outcome_t;

/* Whether another algorithm ran than the row insists on. */
bool bench_outcome_fell_back(const bench_row_t *row, const bench_outcome_t *outcome);

/* In GB/s (10^9 bytes per second); 0 when not timed. */
double bench_outcome_algbw(const bench_row_t *row, const bench_outcome_t *outcome);
double bench_outcome_busbw(const bench_row_t *row, const bench_outcome_t *outcome, int ranks);

#endif
