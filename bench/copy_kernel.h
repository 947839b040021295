/*
 * Kernels that copy or sum buffers with one core: memcpy, string instructions (rep movs),
 * non-temporal stores, vector loads and stores. Which one is fastest depends on the size and on
 * the caches that hold the buffers, so the benchmark tries all of them.
 */
#ifndef BENCH_COPY_KERNEL_H
#define BENCH_COPY_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

/* Stores the sum of the sources (float32), or a copy of the only source, to every one of dsts. The
 * first cached_dsts of dsts are read again soon, by this core or another, and are stored through
 * the caches. No buffers overlap. */
typedef void bench_copy_kernel_t(void *const dsts[], int dst_count, int cached_dsts,
                                 const void *const sources[], int source_count, size_t bytes);

/* Vector loads and stores. On some processors the fastest way to copy what another core has just
 * stored. */
bench_copy_kernel_t bench_copy_vectors;

/* The kernel of that index; NULL past the last. */
bench_copy_kernel_t *bench_copy_kernel(int index);

#endif
