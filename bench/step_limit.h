/*
 * A lower bound for the time of a GPT-2 training step on this machine: the matrix products, each at
 * the rate that it reaches alone, plus the memory traffic of gradient norm
 * and AdamW at the bandwidth of all threads. Everything else counts as free.
 */
#ifndef BENCH_STEP_LIMIT_H
#define BENCH_STEP_LIMIT_H

#include "libtrain/model/layout.h"
#include "libtrain/ops/pool.h"

/* Measures for several seconds and prints the parts to standard output. *limit_ms is their sum for
 * `rows` tokens (sequences times length) on one rank. COLL_ERROR_MEMORY. */
coll_status_t step_limit_print(const train_layout_t *layout, int rows, train_pool_t *pool,
                               double *limit_ms);

#endif
