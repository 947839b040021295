/*
 * Every pool begins on a page, so that the pages of a rank's buffers can be placed on the NUMA node
 * of its core.
 */
#include "bench/limit_buffers.h"

#include "base/alloc.h"
#include "bench/buffer_layout.h"
#include "bench/collectives.h"

/* Appends a pool of buffers to the memory. */
static void add_pool(limit_buffers_t *buffers, size_t bytes, char *memory,
                     bench_buffer_pool_t *pool) {
  size_t all = bench_buffer_pool_bytes(bytes, 0, buffers->pair_count);
  *pool = (bench_buffer_pool_t){.bytes = all};
  if (memory != NULL) pool->memory = (unsigned char *)memory + buffers->bytes;
  bench_buffer_pool_divide(bytes, 0, pool);
  buffers->bytes += base_round_up(all, LIMIT_PAGE_BYTES);
}

coll_status_t limit_buffers_lay_out(const limit_settings_t *settings, size_t bytes, char *memory,
                                    limit_buffers_t *buffers) {
  bench_buffer_layout_t layout;
  coll_collective_t which = settings->collective;
  size_t count = bench_collective_count(which, bytes, COLL_FLOAT32, settings->ranks);
  COLL_TRY(bench_buffer_layout_make(settings->ranks, &layout));
  bench_buffer_layout_describe(which, count, 0, 0, settings->ranks, false, &layout);
  buffers->call_bytes = bench_collective_bytes(which, count, COLL_FLOAT32, settings->ranks);
  buffers->send_bytes = layout.send_elements * sizeof(float);
  buffers->recv_bytes = layout.recv_elements * sizeof(float);
  bench_buffer_layout_free(&layout);
  buffers->pair_count = bench_buffer_pool_pairs(buffers->send_bytes, buffers->recv_bytes);
  buffers->bytes = 0;
  for (int r = 0; r < settings->ranks; r++) {
    add_pool(buffers, buffers->send_bytes, memory, &buffers->send[r]);
    add_pool(buffers, buffers->recv_bytes, memory, &buffers->recv[r]);
  }
  return COLL_OK;
}

char *limit_buffers_data(const bench_buffer_pool_t *pool, int pair) {
  return (char *)bench_buffer_pool_region(pool, pair) + BENCH_GUARD_BYTES;
}
