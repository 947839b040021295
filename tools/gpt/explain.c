/* Tiles that differ only in strides share a row. */
#include "tools/gpt/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 512

/* A row of the table, in the order of its columns. */
typedef struct row {
  train_dtype_t dtype;
  int rows, columns, depth;
  bool a_transposed, b_transposed;
  const char *backend;
  double flops;
} row_t;

typedef struct table {
  row_t rows[ROWS_MAX];
  int count;
} table_t;

static void add_row(void *context, const train_kernel_info_t *info) {
  table_t *table = context;
  const train_kernel_shape_t *shape = &info->shape;
  if (table->count == ROWS_MAX) return;
  table->rows[table->count++] =
      (row_t){.dtype = shape->dtype,
              .rows = shape->rows,
              .columns = shape->columns,
              .depth = shape->depth,
              .a_transposed = shape->a_transposed,
              .b_transposed = shape->b_transposed,
              .backend = info->widened ? "float32 after conversion" : info->backend,
              .flops = info->flops};
}

static int by_shape(const void *a, const void *b) {
  const row_t *x = a, *y = b;
  const int differences[] = {(int)x->dtype - (int)y->dtype,
                             y->rows - x->rows,
                             y->columns - x->columns,
                             y->depth - x->depth,
                             (int)x->a_transposed - (int)y->a_transposed,
                             (int)x->b_transposed - (int)y->b_transposed};
  for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
    if (differences[i] != 0) return differences[i];
  }
  return strcmp(x->backend, y->backend);
}

static void print_row(const row_t *row) {
  const char *layout = row->a_transposed ? "A^T B" : row->b_transposed ? "A B^T" : "A B";
  printf("%-9s %5d %8d %6d  %-6s ", train_dtype_name(row->dtype), row->rows, row->columns,
         row->depth, layout);
  if (row->flops > 0) {
    printf("%12.1f", row->flops * 1e-9);
  } else {
    printf("%12s", "not measured");
  }
  printf("  %s\n", row->backend);
}

void gpt_explain_print(const train_model_t *model) {
  static table_t table;
  table.count = 0;
  train_gemm_describe(model->exec.gemm, add_row, &table);
  qsort(table.rows, (size_t)table.count, sizeof table.rows[0], by_shape);
  printf(
      "matrix products in tiles, with the GFLOP/s of one thread\n%-9s %5s %8s %6s  %-6s %12s  %s\n",
      "type", "rows", "columns", "depth", "layout", "GFLOP/s", "library");
  for (int i = 0; i < table.count; i++) {
    if (i == 0 || by_shape(&table.rows[i - 1], &table.rows[i]) != 0) print_row(&table.rows[i]);
  }
}
