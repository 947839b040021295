/* One allocation serves all rows; every row divides it into buffers of its own size. */
#include "bench/buffer_pool.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "bench/collectives.h"

#define PAIRS_BYTES ((size_t)32 << 20)
#define PAIRS_MIN 2
#define PAGE_BYTES 4096

static size_t stride_of(size_t bytes, size_t misalign) {
  return base_round_up(bytes + misalign + 2 * BENCH_GUARD_BYTES, BASE_CACHE_LINE);
}

size_t bench_buffer_pool_bytes(size_t bytes, size_t misalign, int buffers) {
  return stride_of(bytes, misalign) * (size_t)buffers;
}

int bench_buffer_pool_pairs(size_t send_bytes, size_t recv_bytes) {
  size_t fitting = PAIRS_BYTES / (send_bytes + recv_bytes + 1);
  if (fitting < PAIRS_MIN) return PAIRS_MIN;
  return fitting > BENCH_PAIRS_MAX ? BENCH_PAIRS_MAX : (int)fitting;
}

coll_status_t bench_buffer_pool_make(size_t bytes, bool coll, bench_buffer_pool_t *pool) {
  void *memory = NULL;
  if (coll) {
    COLL_TRY(bench_take_error(NULL, coll_mem_alloc(bytes, &memory)));
  } else if (posix_memalign(&memory, PAGE_BYTES, bytes) != 0) {
    return base_fail(COLL_ERROR_MEMORY, "out of memory for buffers of %zu bytes", bytes);
  }
  *pool = (bench_buffer_pool_t){.memory = memory, .bytes = bytes, .coll = coll};
  return COLL_OK;
}

void bench_buffer_pool_free(bench_buffer_pool_t *pool) {
  if (pool->coll && pool->memory != NULL) {
    (void)coll_mem_free(pool->memory);
  } else {
    free(pool->memory);
  }
  *pool = (bench_buffer_pool_t){0};
}

void bench_buffer_pool_divide(size_t bytes, size_t misalign, bench_buffer_pool_t *pool) {
  pool->stride = stride_of(bytes, misalign);
}
