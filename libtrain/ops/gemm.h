/*
 * Matrix products cut into tiles over a pool. The cut depends on the shape alone, so that results
 * have the same bits with any number of threads; what follows a product element by element is done
 * to each tile while it is still in the cache of the core that made it.
 */
#ifndef LIBTRAIN_OPS_GEMM_H
#define LIBTRAIN_OPS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/ops/pool.h"

/* A part of a product's result. */
typedef struct train_tile {
  int row, rows, column, columns;
  float *out; /* its first element; rows lie out_stride apart */
  int out_stride;
} train_tile_t;

/* What is done to a finished tile. */
typedef void train_tile_end_t(const void *context, const train_tile_t *tile);

/* out[rows, columns] = a[rows, depth] * b[depth, columns]. A transposed factor lies in memory as
 * [depth, rows] or [columns, depth]; strides are those of the rows in memory, in elements. */
typedef struct train_gemm {
  int rows, columns, depth;
  const float *a, *b;
  int a_stride, b_stride;
  bool a_transposed, b_transposed;
  bool add; /* to out instead of overwriting it */
  float *out;
  int out_stride;
  train_tile_end_t *end; /* may be NULL */
  const void *context;
} train_gemm_t;

/* Runs the products side by side: none may read what another writes. */
void train_gemm_run(train_pool_t *pool, const train_gemm_t *products, int count);

/* One product in the caller's thread, uncut; `end` is not called. After train_blas_prepare. */
void train_gemm_here(const train_gemm_t *product);

#endif
