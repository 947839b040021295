/*
 * Matrix products, divided into tiles that run on the thread pool. The tiling depends only on the
 * shape, so results are bit-identical for any number of threads. An epilogue applies element-wise
 * operations to each tile while it is in the cache of the core that computed it.
 *
 * The tiles are computed by the libraries of the back end table (backend.h): for each shape the one
 * that measured fastest on this machine, or the one that LIBTRAIN_GEMM in the environment names
 * (onednn, openblas, plain). The first product of a new size is measured, within some tens of
 * milliseconds; the choices are kept in the user's cache folder (choice.h). Products of
 * several engines on one machine therefore have the same bits.
 */
#ifndef LIBTRAIN_GEMM_GEMM_H
#define LIBTRAIN_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/common/dtype.h"
#include "libtrain/common/pool.h"
#include "libtrain/gemm/kernels.h"

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

/* The pool may be NULL and must outlive it. COLL_ERROR_INVALID if LIBTRAIN_GEMM is wrong;
 * COLL_ERROR_MEMORY; COLL_ERROR_SYSTEM. */
coll_status_t train_gemm_create(train_pool_t *pool, train_gemm_t **gemm);
void train_gemm_destroy(train_gemm_t *gemm);

/* Bytes that train_gemm_create allocates for a pool of that many threads. */
size_t train_gemm_bytes(int threads);

/* Products of a run, at most. */
#define TRAIN_PRODUCTS_MAX 64

/* Runs the products concurrently: none may read what another one writes. */
void train_gemm_run(train_gemm_t *gemm, const train_product_t *products, int count);

/* Runs one product with an `out` and without an epilogue in the calling thread, which is `thread`
 * of the pool, within a task of it. */
void train_gemm_run_serial(train_gemm_t *gemm, int thread, const train_product_t *product);

/* Selects and prepares the kernels of a product without running it; its addresses are not used. */
void train_gemm_prepare(train_gemm_t *gemm, const train_product_t *product);

/* Visits the kernels in use: shapes of tiles, element type, back end and measured rate of one
 * thread. Not during a run. */
void train_gemm_describe(const train_gemm_t *gemm, train_kernel_visit_t *visit, void *context);

#define TRAIN_GEMM_LABEL (2 * TRAIN_BACKEND_LABEL + 8)

/* The rate of products whose operands fit the caches, which training speed is compared with. */
typedef struct train_gemm_rate {
  double flops;                   /* per second, summed over the threads of the pool */
  char backend[TRAIN_GEMM_LABEL]; /* "OpenBLAS 0.3.21 SkylakeX" */
} train_gemm_rate_t;

/* Measures the rate with the fastest back end: the best of several tries, within a fraction of a
 * second. Errors of train_gemm_create. */
coll_status_t train_gemm_measure(train_pool_t *pool, train_dtype_t dtype, train_gemm_rate_t *rate);

#endif
