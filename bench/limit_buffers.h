/*
 * The buffers of all ranks of `limit` at one size, laid out in one piece of memory as in collbench.
 */
#ifndef BENCH_LIMIT_BUFFERS_H
#define BENCH_LIMIT_BUFFERS_H

#include "bench/buffer_pool.h"
#include "bench/limit_rank.h"

enum { LIMIT_PAGE_BYTES = 4096 };

typedef struct limit_buffers {
  size_t call_bytes; /* rounded down to whole elements */
  size_t send_bytes, recv_bytes;
  int pair_count;
  bench_buffer_pool_t send[LIMIT_RANKS_MAX], recv[LIMIT_RANKS_MAX];
  size_t bytes; /* of all ranks together */
} limit_buffers_t;

/* memory NULL: computes only the sizes. */
coll_status_t limit_buffers_lay_out(const limit_settings_t *settings, size_t bytes, char *memory,
                                    limit_buffers_t *buffers);

/* The elements of one pair's buffer. */
char *limit_buffers_data(const bench_buffer_pool_t *pool, int pair);

#endif
