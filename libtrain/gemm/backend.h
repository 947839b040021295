/*
 * The back ends of matrix products: libraries that multiply a tile, and a plain C implementation.
 * kernels.h selects one of them for each shape of tile.
 */
#ifndef LIBTRAIN_GEMM_BACKEND_H
#define LIBTRAIN_GEMM_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "libtrain/common/dtype.h"

#define TRAIN_BACKEND_LABEL 64

/* Bytes of scratch memory that a kernel may use during a run. */
#define TRAIN_BACKEND_SCRATCHPAD ((size_t)1 << 20)

/* out[rows, columns] = a[rows, depth] * b[depth, columns], + out if `add`, in float32. Transposed
 * factors and strides as in train_product_t. All members take part in comparisons. */
typedef struct train_kernel_shape {
  int rows, columns, depth;
  int a_stride, b_stride, out_stride;
  bool a_transposed, b_transposed, add;
  train_dtype_t dtype; /* of a and b */
} train_kernel_shape_t;

/* The arguments of one run of a kernel. */
typedef struct train_kernel_call {
  int thread;
  void *scratchpad; /* TRAIN_BACKEND_SCRATCHPAD bytes, aligned to a cache line */
  const void *a, *b;
  float *out;
} train_kernel_call_t;

typedef struct train_backend {
  const char *name; /* a value of LIBTRAIN_GEMM: "onednn" */

  /* Loads the library, once per process, in any thread. False if it is missing or cannot be used.
   * The label has its version: "oneDNN 2.6.3". */
  bool (*load)(char label[TRAIN_BACKEND_LABEL]);

  /* Whether it has kernels for operands of this type on some processor. */
  bool (*multiplies)(train_dtype_t dtype);

  /* What the kernels of an engine with that many threads share. COLL_ERROR_MEMORY or
   * COLL_ERROR_SYSTEM. */
  coll_status_t (*create)(int threads, void **state);
  void (*destroy)(void *state);

  /* False if the library has no fast kernel for the shape on this processor, or no memory. *kernel
   * may be NULL where a shape needs no preparation. Not called concurrently for one state. */
  bool (*create_kernel)(void *state, const train_kernel_shape_t *shape, void **kernel);
  void (*destroy_kernel)(void *state, void *kernel);

  /* Runs in the calling thread alone. Concurrent calls have different threads. */
  void (*run)(void *state, void *kernel, const train_kernel_shape_t *shape,
              const train_kernel_call_t *call);
} train_backend_t;

extern const train_backend_t train_backend_onednn; /* if built with oneDNN */
extern const train_backend_t train_backend_openblas;
extern const train_backend_t train_backend_plain; /* always available; float32 only */

/* A product of one row, not transposed, for operands of any type: reads b once and does not copy
 * it, which for a single row would take longer than the product. */
void train_plain_row(const train_kernel_shape_t *shape, const void *a, const void *b, float *out);

#endif
