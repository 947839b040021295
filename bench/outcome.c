/* Size over time, and that times the collective's share. */
#include "bench/outcome.h"

#include <string.h>

#include "bench/collectives.h"

bool bench_outcome_fell_back(const bench_row_t *row, const bench_outcome_t *outcome) {
  return row->algo != NULL && outcome->algo[0] != '\0' && strcmp(row->algo, outcome->algo) != 0;
}

double bench_outcome_algbw(const bench_row_t *row, const bench_outcome_t *outcome) {
  return outcome->time_us > 0 ? (double)row->bytes / outcome->time_us * 1e-3 : 0;
}

double bench_outcome_busbw(const bench_row_t *row, const bench_outcome_t *outcome, int ranks) {
  return bench_outcome_algbw(row, outcome) * bench_collective_bus_factor(row->collective, ranks);
}
