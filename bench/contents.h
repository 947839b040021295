/*
 * Contents of buffers that may be in a GPU's memory: there they are made and compared in the GPU's
 * staging memory, which must have room for the buffer.
 */
#ifndef BENCH_CONTENTS_H
#define BENCH_CONTENTS_H

#include "bench/buffer_pool.h"
#include "bench/check.h"
#include "bench/gpu.h"

/* gpu NULL: the buffer is the host's memory. */
coll_status_t bench_contents_fill(const bench_gpu_t *gpu, const bench_values_t *values,
                                  const bench_contents_t *contents, const bench_buffer_t *buffer,
                                  void *scratch);

/* Adds the differences to *mismatch. */
coll_status_t bench_contents_compare(const bench_gpu_t *gpu, const bench_values_t *values,
                                     const bench_contents_t *contents, const bench_buffer_t *buffer,
                                     void *scratch, bench_mismatch_t *mismatch);

/* Makes buffer `index` of the pool equal to its first one. */
coll_status_t bench_contents_repeat(const bench_gpu_t *gpu, const bench_buffer_pool_t *pool,
                                    int index);

#endif
