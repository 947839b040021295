/* The output of rank 0: the table with one line per row or per algorithm, the summary lines and the
 * JSON file. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/progress.h"
#include "bench/json_output.h"
#include "bench/result.h"
#include "bench/rows.h"
#include "bench/settings.h"

/* Totals over some rows. */
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
  bench_tally_t all, part; /* part: the rows since the last line of --print brief */
  bench_row_t last;        /* the latest row */
  bool fell_back;          /* a requested algorithm did not support a call */
  base_progress_t progress;
  bool shows_progress;
  bench_json_output_t *output; /* NULL without --json; owned */
} bench_report_t;

/* Prints the table head. COLL_ERROR_SYSTEM when the JSON file cannot be written. */
coll_status_t bench_report_begin(const bench_settings_t *settings, const bench_rows_t *rows,
                                 int ranks, FILE *out, bench_report_t *report);
void bench_report_row(bench_report_t *report, const bench_row_t *row,
                      const bench_result_t *out_of_place, const bench_result_t *in_place);
/* Prints the summary lines, writes the JSON file and frees. */
coll_status_t bench_report_end(bench_report_t *report);

/* Frees without output, after a failure. */
void bench_report_abandon(bench_report_t *report);

#endif
