/* One allocation, cut anew for every row. */
#include "bench/pool.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "bench/collectives.h"

#define ROTATION_BYTES ((size_t)32 << 20)
#define ROTATION_MIN 2
#define PAGE_BYTES 4096

static size_t stride_of(size_t bytes, size_t misalign) {
  return base_round_up(bytes + misalign + 2 * BENCH_GUARD_BYTES, BASE_CACHE_LINE);
}

size_t bench_pool_bytes(size_t bytes, size_t misalign, int buffers) {
  return stride_of(bytes, misalign) * (size_t)buffers;
}

int bench_pool_rotation(size_t send_bytes, size_t recv_bytes) {
  size_t fitting = ROTATION_BYTES / (send_bytes + recv_bytes + 1);
  if (fitting < ROTATION_MIN) return ROTATION_MIN;
  return fitting > BENCH_ROTATION_MAX ? BENCH_ROTATION_MAX : (int)fitting;
}

coll_status_t bench_pool_make(size_t bytes, bool coll, bench_pool_t *pool) {
  void *memory = NULL;
  if (coll) {
    COLL_TRY(bench_told(NULL, coll_mem_alloc(bytes, &memory)));
  } else if (posix_memalign(&memory, PAGE_BYTES, bytes) != 0) {
    return base_fail(COLL_ERROR_MEMORY, "out of memory for buffers of %zu bytes", bytes);
  }
  *pool = (bench_pool_t){.memory = memory, .bytes = bytes, .coll = coll};
  return COLL_OK;
}

void bench_pool_free(bench_pool_t *pool) {
  if (pool->coll && pool->memory != NULL) {
    (void)coll_mem_free(pool->memory);
  } else {
    free(pool->memory);
  }
  *pool = (bench_pool_t){0};
}

void bench_pool_cut(size_t bytes, size_t misalign, bench_pool_t *pool) {
  pool->stride = stride_of(bytes, misalign);
}
