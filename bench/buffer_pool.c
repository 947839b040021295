/* One allocation serves all rows; every row divides it into buffers of its own size. */
#include "bench/buffer_pool.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/collectives.h"
#include "bench/gpu.h"

#define PAIRS_BYTES ((size_t)32 << 20)
#define PAIRS_MIN 2
#define PAGE_BYTES 4096
#define GPU_PAGE_BYTES ((size_t)2 << 20)

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

static coll_status_t allocate(size_t bytes, bench_memory_t kind, int device, void **memory) {
  switch (kind) {
    case BENCH_COLL: return bench_take_error(NULL, coll_mem_alloc(COLL_DEVICE_HOST, bytes, memory));
    case BENCH_CUDA: return bench_gpu_alloc(bytes, memory);
    case BENCH_CUDA_COLL:
      bytes = base_round_up(bytes, GPU_PAGE_BYTES);
      return bench_take_error(NULL, coll_mem_alloc(device, bytes, memory));
    default: break;
  }
  if (posix_memalign(memory, PAGE_BYTES, bytes) == 0) return COLL_OK;
  return base_fail(COLL_ERROR_MEMORY, "out of memory for buffers of %zu bytes", bytes);
}

coll_status_t bench_buffer_pool_make(size_t bytes, bench_memory_t kind, int device,
                                     bench_buffer_pool_t *pool) {
  void *memory = NULL;
  COLL_TRY(allocate(bytes, kind, device, &memory));
  *pool = (bench_buffer_pool_t){.memory = memory, .bytes = bytes, .kind = kind};
  return COLL_OK;
}

void bench_buffer_pool_free(bench_buffer_pool_t *pool) {
  if (pool->memory != NULL) {
    switch (pool->kind) {
      case BENCH_COLL:
      case BENCH_CUDA_COLL: (void)coll_mem_free(pool->memory); break;
      case BENCH_CUDA: bench_gpu_free(pool->memory); break;
      default: free(pool->memory); break;
    }
  }
  *pool = (bench_buffer_pool_t){0};
}

void bench_buffer_pool_divide(size_t bytes, size_t misalign, bench_buffer_pool_t *pool) {
  pool->stride = stride_of(bytes, misalign);
}
