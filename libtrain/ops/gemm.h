/*
 * Matrix products, divided into tiles that run on the thread pool. The tiling depends only on the
 * shape, so results are bit-identical for any number of threads. An epilogue applies element-wise
 * operations to each tile while it is in the cache of the core that computed it.
 */
#ifndef LIBTRAIN_OPS_GEMM_H
#define LIBTRAIN_OPS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/ops/pool.h"

/* A tile of a product's result. */
typedef struct train_tile {
  int row, rows, column, columns;
  float *out; /* first element; rows are out_stride apart */
  int out_stride;
} train_tile_t;

/* Called for each finished tile. */
typedef void train_epilogue_t(const void *context, const train_tile_t *tile);

/* out[rows, columns] = a[rows, depth] * b[depth, columns]. A transposed factor is stored as [depth,
 * rows] or [columns, depth]. Strides are distances between stored rows, in elements. */
typedef struct train_gemm {
  int rows, columns, depth;
  const float *a, *b;
  int a_stride, b_stride;
  bool a_transposed, b_transposed;
  bool add; /* add to out instead of overwriting it */
  float *out;
  int out_stride;
  train_epilogue_t *epilogue; /* may be NULL */
  const void *context;
} train_gemm_t;

/* Runs the products concurrently: none may read what another one writes. */
void train_gemm_run(train_pool_t *pool, const train_gemm_t *products, int count);

/* Runs one product in the calling thread without tiling or epilogue. Requires an earlier call of
 * train_blas_prepare. */
void train_gemm_run_serial(const train_gemm_t *product);

#endif
