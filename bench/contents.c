/* A buffer on a GPU is moved as a whole, with the bytes around it. */
#include "bench/contents.h"

#include <string.h>

#include "base/status.h"

coll_status_t bench_contents_fill(const bench_gpu_t *gpu, const bench_values_t *values,
                                  const bench_contents_t *contents, const bench_buffer_t *buffer,
                                  void *scratch) {
  bench_buffer_t staged = *buffer;
  if (gpu != NULL) staged.region = gpu->staging;
  bench_check_fill(values, contents, &staged, scratch);
  return gpu != NULL ? bench_gpu_upload(gpu, buffer->region, buffer->region_bytes) : COLL_OK;
}

coll_status_t bench_contents_compare(const bench_gpu_t *gpu, const bench_values_t *values,
                                     const bench_contents_t *contents, const bench_buffer_t *buffer,
                                     void *scratch, bench_mismatch_t *mismatch) {
  bench_buffer_t staged = *buffer;
  if (gpu != NULL) {
    COLL_TRY(bench_gpu_download(gpu, buffer->region, buffer->region_bytes));
    staged.region = gpu->staging;
  }
  bench_check_compare(values, contents, &staged, scratch, mismatch);
  return COLL_OK;
}

coll_status_t bench_contents_repeat(const bench_gpu_t *gpu, const bench_buffer_pool_t *pool,
                                    int index) {
  void *to = bench_buffer_pool_region(pool, index);
  const void *from = bench_buffer_pool_region(pool, 0);
  if (index == 0) return COLL_OK;
  if (gpu != NULL) return bench_gpu_copy(gpu, to, from, pool->stride);
  memcpy(to, from, pool->stride);
  return COLL_OK;
}
