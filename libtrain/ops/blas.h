/*
 * OpenBLAS, which multiplies the matrices: each product in the caller's thread alone, since
 * libtrain has threads of its own (pool.h). OpenBLAS chooses its kernels by the processor;
 * OPENBLAS_CORETYPE in the environment overrules it, for better or worse: "Haswell" on a processor
 * with AVX-512 halves its speed.
 */
#ifndef LIBTRAIN_OPS_BLAS_H
#define LIBTRAIN_OPS_BLAS_H

#include "base/status.h"
#include "libtrain/ops/pool.h"

/* Keeps OpenBLAS to the thread that calls it. Every operator that multiplies begins with this; it
 * costs nothing after the first time. */
void train_blas_prepare(void);

/* The kernels that it chose: "SkylakeX". */
const char *train_blas_kernels(void);

/* The rate at which matrices are multiplied when every thread of the pool multiplies its own, of a
 * size that fits caches well: FLOP/s of all of them, the best of a few tries, in a fraction of a
 * second. It is the limit that a step of training is measured against. */
coll_status_t train_blas_rate(train_pool_t *pool, double *flops);

#endif
