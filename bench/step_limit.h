/*
 * What a training step of a GPT-2 takes at least on this machine: its matrix products, each at the
 * best rate that OpenBLAS reaches on that shape alone, and the passes over memory of gradient norm
 * and AdamW at the speed at which all threads read and write. Everything else counts as free.
 */
#ifndef BENCH_STEP_LIMIT_H
#define BENCH_STEP_LIMIT_H

#include "libtrain/model/layout.h"
#include "libtrain/ops/pool.h"

/* Measures for some seconds and prints the parts to standard output. *limit_ms: their sum, for
 * `rows` tokens (sequences times their length) on one rank. COLL_ERROR_MEMORY. */
coll_status_t step_limit_print(const train_layout_t *layout, int rows, train_pool_t *pool,
                               double *limit_ms);

#endif
