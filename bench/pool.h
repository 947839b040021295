/*
 * A pool of equal buffers that the timed calls rotate among, so that no call finds its data where
 * the call before left it. Each buffer has guard bytes before and behind it.
 */
#ifndef BENCH_POOL_H
#define BENCH_POOL_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#define BENCH_GUARD_BYTES 256 /* on each side of a buffer */
#define BENCH_ROTATION_MAX 16

typedef struct bench_pool {
  unsigned char *memory;
  size_t bytes;  /* of the memory */
  size_t stride; /* from one buffer's front guard to the next one's */
  bool coll;     /* from coll_mem_alloc, else malloc */
} bench_pool_t;

/* What one call works on. */
typedef struct bench_pair {
  const void *send;
  void *recv;
} bench_pair_t;

/* Bytes of a pool of `buffers` buffers of `bytes` each that begin `misalign` bytes late. */
size_t bench_pool_bytes(size_t bytes, size_t misalign, int buffers);

/* How many pairs of buffers of `send_bytes` and `recv_bytes` to rotate among: 2 to
 * BENCH_ROTATION_MAX, about 32 MiB. */
int bench_pool_rotation(size_t send_bytes, size_t recv_bytes);

coll_status_t bench_pool_make(size_t bytes, bool coll, bench_pool_t *pool);
void bench_pool_free(bench_pool_t *pool);

/* Cuts the pool into buffers of `bytes` each. */
void bench_pool_cut(size_t bytes, size_t misalign, bench_pool_t *pool);

/* The index-th buffer's front guard; its data begin BENCH_GUARD_BYTES + misalign later. */
static inline unsigned char *bench_pool_region(const bench_pool_t *pool, int index) {
  return pool->memory + (size_t)index * pool->stride;
}

#endif
