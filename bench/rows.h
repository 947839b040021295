/* The rows of the result table: one for every combination of collective, algorithm, dtype, op, root
 * and size that the settings ask for, in the order of measurement. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include <coll.h>

#include <stddef.h>

#include "bench/settings.h"

#define BENCH_NO_ROOT (-1)

typedef struct bench_row {
  coll_collective_t collective;
  const char *algo; /* the algorithm to use; NULL: the library chooses */
  coll_dtype_t dtype;
  int op;   /* BENCH_OP_NONE when the collective does not reduce */
  int root; /* BENCH_NO_ROOT when it has none */
  size_t count, bytes;
} bench_row_t;

typedef struct bench_rows {
  bench_row_t *rows;
  size_t count, capacity;
} bench_rows_t;

/* COLL_ERROR_INVALID: --root is not below `ranks`, or a size overflows. The caller frees the rows
 * after success. */
coll_status_t bench_rows_make(const bench_settings_t *settings, int ranks, bench_rows_t *rows);
void bench_rows_free(bench_rows_t *rows);

#endif
