/* collbench --explain: the time that libcoll's cost model predicts for every algorithm. */
#ifndef BENCH_EXPLAIN_H
#define BENCH_EXPLAIN_H

#include <coll.h>

#include <stdio.h>

#include "bench/rows.h"
#include "bench/settings.h"

/* Rank 0 prints for every row the chosen algorithm, the others from fast to slow and those that do
 * not support the call. It prints the terms of each predicted time, and writes --json. Other ranks
 * do nothing. COLL_ERROR_SYSTEM when the file cannot be written. */
coll_status_t bench_explain(const bench_settings_t *settings, const bench_rows_t *rows,
                            coll_comm_t comm, FILE *out);

#endif
