/* Nested loops, outermost first: collective, algorithm, dtype, reduction, root, size. Bitwise
 * reductions of floating-point dtypes are left out. */
#include "bench/rows.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/status.h"
#include "bench/collectives.h"

static coll_status_t add(bench_rows_t *rows, bench_row_t row, int ranks) {
  size_t product;
  if (!base_size_multiply(row.count, 8 * (size_t)ranks, &product)) {
    return base_fail(COLL_ERROR_INVALID, "--counts: %zu elements for %d ranks are too many",
                     row.count, ranks);
  }
  void *grown = rows->rows;
  coll_status_t status =
      base_grow(&grown, &rows->capacity, rows->count + 1, sizeof row, "the rows of the benchmark");
  if (status != COLL_OK) return status;
  rows->rows = grown;
  row.bytes = bench_collective_bytes(row.collective, row.count, row.dtype, ranks);
  rows->rows[rows->count++] = row;
  return COLL_OK;
}

static coll_status_t add_sizes(const bench_settings_t *settings, bench_row_t row, int ranks,
                               bench_rows_t *rows) {
  if (row.collective == COLL_BARRIER) return add(rows, row, ranks);
  for (size_t i = 0; i < settings->size_count; i++) {
    row.count = bench_collective_count(row.collective, settings->sizes[i], row.dtype, ranks);
    COLL_TRY(add(rows, row, ranks));
  }
  for (size_t i = 0; i < settings->count_count; i++) {
    row.count = settings->counts[i];
    COLL_TRY(add(rows, row, ranks));
  }
  return COLL_OK;
}

static coll_status_t add_roots(const bench_settings_t *settings, bench_row_t row, int ranks,
                               bench_rows_t *rows) {
  row.root = BENCH_NO_ROOT;
  if (!bench_collective_is_rooted(row.collective)) return add_sizes(settings, row, ranks, rows);
  int first = settings->root == BENCH_ROOT_ALL ? 0 : settings->root;
  int last = settings->root == BENCH_ROOT_ALL ? ranks - 1 : settings->root;
  for (row.root = first; row.root <= last; row.root++) {
    COLL_TRY(add_sizes(settings, row, ranks, rows));
  }
  return COLL_OK;
}

static coll_status_t add_ops(const bench_settings_t *settings, bench_row_t row, int ranks,
                             bench_rows_t *rows) {
  row.op = BENCH_OP_NONE;
  if (!bench_collective_reduces(row.collective)) return add_roots(settings, row, ranks, rows);
  for (row.op = 0; row.op < BENCH_OP_COUNT; row.op++) {
    if (!settings->ops[row.op] || !base_op_takes((coll_op_t)row.op, row.dtype)) continue;
    COLL_TRY(add_roots(settings, row, ranks, rows));
  }
  return COLL_OK;
}

static coll_status_t add_dtypes(const bench_settings_t *settings, bench_row_t row, int ranks,
                                bench_rows_t *rows) {
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    if (!settings->dtypes[dtype]) continue;
    row.dtype = (coll_dtype_t)dtype;
    COLL_TRY(add_ops(settings, row, ranks, rows));
    if (row.collective == COLL_BARRIER) break;
  }
  return COLL_OK;
}

static coll_status_t add_algos(const bench_settings_t *settings, bench_row_t row, int ranks,
                               bench_rows_t *rows) {
  if (settings->algo == NULL) return add_dtypes(settings, row, ranks, rows);
  for (int i = 0; (row.algo = coll_algo_name(row.collective, i)) != NULL; i++) {
    if (bench_settings_select_algo(settings, row.algo)) {
      COLL_TRY(add_dtypes(settings, row, ranks, rows));
    }
  }
  return COLL_OK;
}

coll_status_t bench_rows_make(const bench_settings_t *settings, int ranks, bench_rows_t *rows) {
  bench_rows_t made = {0};
  if (settings->root >= ranks) {
    return base_fail(COLL_ERROR_INVALID, "--root %d: there are only ranks 0 to %d", settings->root,
                     ranks - 1);
  }
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    if (!settings->collectives[i]) continue;
    coll_status_t status =
        add_algos(settings, (bench_row_t){.collective = (coll_collective_t)i}, ranks, &made);
    if (status != COLL_OK) {
      bench_rows_free(&made);
      return status;
    }
  }
  *rows = made;
  return COLL_OK;
}

void bench_rows_free(bench_rows_t *rows) {
  free(rows->rows);
  *rows = (bench_rows_t){0};
}
