/* The result of a row, and the bandwidths computed from it. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/rows.h"

#define BENCH_ALGO_BYTES 32

/* The result of one form of a row, in place or out of place; the same on all ranks. */
typedef struct bench_result {
  bool ran; /* false: the collective has no such form */
  /* Time per call of the slowest rank: median, minimum and maximum of the batches; 0: not timed. */
  double time_us, min_us, max_us;
  uint64_t wrong;              /* wrong elements and stray bytes, summed over all ranks */
  char algo[BENCH_ALGO_BYTES]; /* the algorithm that ran; "" for a call without elements */
} bench_result_t;

/* Whether the library ran another algorithm than the one that the row asks for. */
bool bench_result_fell_back(const bench_row_t *row, const bench_result_t *result);

/* Bandwidths in GB/s (10^9 bytes per second); 0 when not timed. */
double bench_result_algbw(const bench_row_t *row, const bench_result_t *result);
double bench_result_busbw(const bench_row_t *row, const bench_result_t *result, int ranks);

#endif
