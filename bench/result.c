/* algbw is size / time; busbw is algbw times the bus factor of the collective. */
#include "bench/result.h"

#include <string.h>

#include "bench/collectives.h"

bool bench_result_fell_back(const bench_row_t *row, const bench_result_t *result) {
  return row->algo != NULL && result->algo[0] != '\0' && strcmp(row->algo, result->algo) != 0;
}

double bench_result_algbw(const bench_row_t *row, const bench_result_t *result) {
  return result->time_us > 0 ? (double)row->bytes / result->time_us * 1e-3 : 0;
}

double bench_result_busbw(const bench_row_t *row, const bench_result_t *result, int ranks) {
  return bench_result_algbw(row, result) * bench_collective_bus_factor(row->collective, ranks);
}
