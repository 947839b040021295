/*
 * The kernels of an engine: for each shape of tile, the back end that is the fastest of this
 * machine (choice.h), prepared once. Operands of a type that no library multiplies here are
 * converted to float32, block by block.
 */
#ifndef LIBTRAIN_GEMM_KERNELS_H
#define LIBTRAIN_GEMM_KERNELS_H

#include "libtrain/gemm/backend.h"

/* What train_kernels_visit reports. */
typedef struct train_kernel_info {
  train_kernel_shape_t shape;
  const char *backend; /* label, "oneDNN 2.6.3"; valid until train_kernels_destroy */
  bool widened;        /* the operands are converted to float32 first, and `backend` is empty */
  double flops;        /* per second, of one thread when the choice was measured; 0 if it was not */
} train_kernel_info_t;

typedef void train_kernel_visit_t(void *context, const train_kernel_info_t *info);

typedef struct train_kernels train_kernels_t;

/* For threads 0 .. threads - 1. LIBTRAIN_GEMM in the environment forces a back end.
 * COLL_ERROR_INVALID if there is none of that name; COLL_ERROR_MEMORY; COLL_ERROR_SYSTEM. */
coll_status_t train_kernels_create(int threads, train_kernels_t **kernels);
void train_kernels_destroy(train_kernels_t *kernels);

/* Bytes of the scratch memory that train_kernels_create allocates. */
size_t train_kernels_bytes(int threads);

/* Scratch memory of a thread for the result of a tile: TRAIN_TILE_ROWS rows, TRAIN_TILE_COLUMNS
 * apart. */
#define TRAIN_TILE_ROWS 256
#define TRAIN_TILE_COLUMNS 384
float *train_kernels_tile(train_kernels_t *kernels, int thread);

/* Selects and prepares the kernel of a shape in advance, so that its time is measured while other
 * threads are idle. */
void train_kernels_prepare(train_kernels_t *kernels, int thread, const train_kernel_shape_t *shape);

/* Computes a tile in the calling thread. Cannot fail. */
void train_kernels_run(train_kernels_t *kernels, int thread, const train_kernel_shape_t *shape,
                       const void *a, const void *b, float *out);

/* Visits all prepared kernels. Not while another thread uses them. */
void train_kernels_visit(const train_kernels_t *kernels, train_kernel_visit_t *visit,
                         void *context);

#endif
