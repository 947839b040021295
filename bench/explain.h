/* Why the library chooses the algorithms it chooses: what it expects of each, by size. */
#ifndef BENCH_EXPLAIN_H
#define BENCH_EXPLAIN_H

#include <coll.h>

#include <stdio.h>

#include "bench/rows.h"
#include "bench/settings.h"

/* Rank 0 prints, for every row, the algorithm that the library takes, the others from fast to
 * slow, and those that cannot serve it, with the terms that make their times, and writes --json;
 * other ranks do nothing. COLL_ERROR_SYSTEM when the file cannot be written. */
coll_status_t bench_explain(const bench_settings_t *settings, const bench_rows_t *rows,
                            coll_comm_t comm, FILE *out);

#endif
