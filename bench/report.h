/* What rank 0 prints and writes: the table, or one line per algorithm, the closing lines and the
 * JSON file. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/progress.h"
#include "bench/journal.h"
#include "bench/outcome.h"
#include "bench/rows.h"
#include "bench/settings.h"

/* Sums over some rows. */
typedef struct bench_tally {
  size_t rows;
  uint64_t wrong;
  double busbw_sum, busbw_best; /* GB/s, in place and out of place alike */
  size_t busbw_count;
} bench_tally_t;

typedef struct bench_report {
  const bench_settings_t *settings;
  int ranks;
  size_t row_count;
  FILE *out;
  bench_tally_t all, part; /* part: since the last brief line */
  bench_row_t last;        /* of the part */
  bool fell_back;          /* an algorithm that was asked for could not serve a call */
  base_progress_t progress;
  bool shows_progress;
  bench_journal_t *journal; /* NULL without --json; owned */
} bench_report_t;

/* Prints the head. COLL_ERROR_SYSTEM when the JSON file cannot be written. */
coll_status_t bench_report_begin(const bench_settings_t *settings, const bench_rows_t *rows,
                                 int ranks, FILE *out, bench_report_t *report);
void bench_report_row(bench_report_t *report, const bench_row_t *row,
                      const bench_outcome_t *out_of_place, const bench_outcome_t *in_place);
/* Prints the closing lines, writes the JSON file and frees. */
coll_status_t bench_report_end(bench_report_t *report);

/* Frees without a word, after a failure. */
void bench_report_abandon(bench_report_t *report);

#endif
