/*
 * The parts of a GPT-2 training step that no program can leave out, each alone: the matrix products
 * at the rates of this library, and the memory traffic of gradient norm and AdamW at the bandwidth
 * of all threads. Their sum is no bound for a step: other products may be faster, and what one part
 * leaves in a cache saves the next one's loads.
 */
#ifndef BENCH_STEP_LIMIT_H
#define BENCH_STEP_LIMIT_H

#include <stdio.h>

#include "libtrain/common/pool.h"
#include "libtrain/common/precision.h"
#include "libtrain/model/layout.h"

/* Measures for several seconds; *limit_ms is the sum of the parts for `rows` tokens (sequences
 * times length) on one rank. Prints the parts to `out` unless it is NULL. COLL_ERROR_MEMORY. */
coll_status_t step_limit_measure(const train_layout_t *layout, int rows, train_pool_t *pool,
                                 train_precision_t precision, FILE *out, double *limit_ms);

/* The rate in FLOP/s of one large square matrix product with factors of that type on all threads,
 * the best of several. COLL_ERROR_MEMORY. */
coll_status_t step_product_rate(train_pool_t *pool, train_dtype_t dtype, double *flops);

#endif
