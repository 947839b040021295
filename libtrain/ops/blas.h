/*
 * OpenBLAS, which computes the matrix products. Each product runs in its caller's thread only,
 * because libtrain has its own threads (pool.h). OpenBLAS selects its kernels by the processor;
 * OPENBLAS_CORETYPE in the environment overrides the choice, which can be slower: "Haswell" on a
 * processor with AVX-512 halves the speed.
 */
#ifndef LIBTRAIN_OPS_BLAS_H
#define LIBTRAIN_OPS_BLAS_H

#include "base/status.h"
#include "libtrain/ops/pool.h"

/* Limits OpenBLAS to the calling thread. Every operator that multiplies matrices calls this first;
 * repeated calls cost nothing. */
void train_blas_prepare(void);

/* The name of the selected kernels: "SkylakeX". */
const char *train_blas_kernels(void);

/* train_gemm_measure of float32. */
coll_status_t train_blas_rate(train_pool_t *pool, double *flops);

#endif
