/* Memory of the GPU for what is written once: programs, and what the kernel knows of its rank. It
 * comes from blocks of the granularity of shareable memory, as cuMemAlloc and cuMemFree may wait
 * for kernels that wait for other ranks. */
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

#define ALIGNMENT 256

static coll_status_t take(cuda_end_t *end, size_t bytes, cuda_ptr_t *address) {
  cuda_end_pool_t *pool = &end->pool;
  size_t rounded = base_round_up(bytes, ALIGNMENT);
  cuda_memory_t *last = pool->count > 0 ? &pool->blocks[pool->count - 1] : NULL;
  if (last == NULL || rounded > last->bytes - pool->used) {
    COLL_TRY(base_grow((void **)&pool->blocks, &pool->capacity, pool->count + 1,
                       sizeof *pool->blocks, "memory of a GPU"));
    last = &pool->blocks[pool->count];
    COLL_TRY(cuda_memory_alloc(end->driver, end->device, rounded, last));
    pool->count++;
    pool->used = 0;
  }
  *address = last->address + pool->used;
  pool->used += rounded;
  return COLL_OK;
}

coll_status_t cuda_end_upload(cuda_end_t *end, const void *bytes, size_t count,
                              cuda_ptr_t *address) {
  COLL_TRY(take(end, count, address));
  COLL_TRY(CUDA_END_CALL(end, cuMemcpyAsync, *address, (cuda_ptr_t)(uintptr_t)bytes, count,
                         end->uploads));
  return CUDA_END_CALL(end, cuStreamSynchronize, end->uploads);
}

coll_status_t cuda_end_upload_parts(cuda_end_t *end, char *const parts[], cuda_ptr_t *at) {
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_end_enter(end, &mode));
  coll_status_t status = cuda_end_upload(end, parts, (size_t)end->size * sizeof *parts, at);
  cuda_end_leave(end, mode);
  return status;
}

void cuda_end_pool_free(cuda_end_t *end) {
  cuda_end_pool_t *pool = &end->pool;
  for (size_t i = 0; i < pool->count; i++) (void)cuda_memory_free(end->driver, &pool->blocks[i]);
  free(pool->blocks);
  *pool = (cuda_end_pool_t){0};
}
