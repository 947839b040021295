/*
 * Matrix products, divided into tiles that run on the thread pool. The tiling depends only on the
 * shape, so results are bit-identical for any number of threads. An epilogue applies element-wise
 * operations to each tile while it is in the cache of the core that computed it.
 *
 * The tiles are computed by the libraries of the back end table (ops/backend.h); for each shape
 * the one that measured fastest on this machine.
 */
#ifndef LIBTRAIN_OPS_GEMM_H
#define LIBTRAIN_OPS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/common/dtype.h"
#include "libtrain/ops/pool.h"

/* A tile of a product's result. */
typedef struct train_tile {
  int row, rows, column, columns;
  float *values; /* first element, in `out` or in scratch; rows are `stride` apart */
  int stride;
} train_tile_t;

/* Called for each finished tile, whose values it may change. */
typedef void train_epilogue_t(const void *context, const train_tile_t *tile);

/* a[rows, depth] * b[depth, columns], summed in float32. A transposed factor is stored as [depth,
 * rows] or [columns, depth]. Strides are distances between stored rows, in elements. */
typedef struct train_product {
  int rows, columns, depth;
  train_dtype_t dtype; /* of a and b */
  const void *a, *b;
  int a_stride, b_stride;
  bool a_transposed, b_transposed;
  bool add;   /* add to out instead of overwriting it */
  float *out; /* NULL: only the epilogue gets the result, tile by tile */
  int out_stride;
  train_epilogue_t *epilogue; /* may be NULL */
  const void *context;
} train_product_t;

/* Computes products on the threads of a pool. One run at a time. */
typedef struct train_gemm train_gemm_t;

/* The pool may be NULL and must outlive it. COLL_ERROR_MEMORY. */
coll_status_t train_gemm_create(train_pool_t *pool, train_gemm_t **gemm);
void train_gemm_destroy(train_gemm_t *gemm);

/* Bytes that train_gemm_create allocates for a pool of that many threads. */
size_t train_gemm_bytes(int threads);

/* Runs the products concurrently: none may read what another one writes. */
void train_gemm_run(train_gemm_t *gemm, const train_product_t *products, int count);

/* Runs one product with an `out` and without an epilogue in the calling thread, which is `thread`
 * of the pool, within a task of it. */
void train_gemm_run_serial(train_gemm_t *gemm, int thread, const train_product_t *product);

#endif
