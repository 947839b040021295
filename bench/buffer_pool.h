/*
 * Equal buffers in one allocation. Timed calls rotate among them, so that a call does not find its
 * data in the cache because the previous call used the same buffer. Each buffer has guard bytes
 * before and after it.
 */
#ifndef BENCH_BUFFER_POOL_H
#define BENCH_BUFFER_POOL_H

#include <coll.h>

#include <stddef.h>

#include "bench/settings.h"

#define BENCH_GUARD_BYTES 256 /* on each side of a buffer */
#define BENCH_PAIRS_MAX 16

typedef struct bench_buffer_pool {
  unsigned char *memory;
  size_t bytes;  /* size of the memory */
  size_t stride; /* from the front guard of one buffer to that of the next */
  bench_memory_t kind;
} bench_buffer_pool_t;

/* A call's two pointers. */
typedef struct bench_buffer_pair {
  const void *send;
  void *recv;
} bench_buffer_pair_t;

/* Size of a pool of `buffers` buffers of `bytes` each, which begin `misalign` bytes after an
 * aligned address. */
size_t bench_buffer_pool_bytes(size_t bytes, size_t misalign, int buffers);

/* The number of buffer pairs to rotate among: as many as fit about 32 MiB, but 2 to
 * BENCH_PAIRS_MAX. */
int bench_buffer_pool_pairs(size_t send_bytes, size_t recv_bytes);

/* device: of memory of a GPU, whose context is current in this thread. */
coll_status_t bench_buffer_pool_make(size_t bytes, bench_memory_t kind, int device,
                                     bench_buffer_pool_t *pool);
void bench_buffer_pool_free(bench_buffer_pool_t *pool);

/* Divides the memory into buffers of `bytes` each. */
void bench_buffer_pool_divide(size_t bytes, size_t misalign, bench_buffer_pool_t *pool);

/* The front guard of a buffer; its data begin BENCH_GUARD_BYTES + misalign after that. */
static inline unsigned char *bench_buffer_pool_region(const bench_buffer_pool_t *pool, int index) {
  return pool->memory + (size_t)index * pool->stride;
}

#endif
