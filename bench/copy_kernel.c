/* Plain loops over blocks that fit the first-level cache; the compiler vectorizes them. A sum with
 * several destinations is formed once per block and then copied. */
#include "bench/copy_kernel.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/move.h"

#define BLOCK_BYTES 512

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

typedef float vector_t __attribute__((vector_size(64), aligned(4), may_alias));

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

static const char *block_of(const void *source, size_t at) {
  return (const char *)source + at;
}

/* Stores to `to` the sum of the sources, all from offset `at` on. */
WIDEST static void sum_block(char *to, const void *const sources[], int source_count, size_t at,
                             size_t bytes) {
  const char *const *from = (const char *const *)sources;
  size_t done = 0;
  for (; done + sizeof(vector_t) <= bytes; done += sizeof(vector_t)) {
    vector_t sum = *(const vector_t *)(from[0] + at + done);
    for (int s = 1; s < source_count; s++) sum += *(const vector_t *)(from[s] + at + done);
    *(vector_t *)(to + done) = sum;
  }
  for (; done < bytes; done += sizeof(float)) {
    float sum = *(const float *)(from[0] + at + done);
    for (int s = 1; s < source_count; s++) sum += *(const float *)(from[s] + at + done);
    *(float *)(to + done) = sum;
  }
}

static void copy_memcpy(void *const dsts[], int dst_count, int cached_dsts,
                        const void *const sources[], int source_count, size_t bytes) {
  (void)cached_dsts;
  if (source_count == 1) {
    for (int d = 0; d < dst_count; d++) memcpy(dsts[d], sources[0], bytes);
    return;
  }
  size_t step = dst_count == 1 ? bytes : BLOCK_BYTES;
  for (size_t at = 0; at < bytes; at += step) {
    size_t part = min_size(step, bytes - at);
    char *result = (char *)dsts[0] + at;
    sum_block(result, sources, source_count, at, part);
    for (int d = 1; d < dst_count; d++) memcpy((char *)dsts[d] + at, result, part);
  }
}

void bench_copy_vectors(void *const dsts[], int dst_count, int cached_dsts,
                        const void *const sources[], int source_count, size_t bytes) {
  if (source_count > 1) {
    copy_memcpy(dsts, dst_count, cached_dsts, sources, source_count, bytes);
    return;
  }
  for (int d = 0; d < dst_count; d++) sum_block(dsts[d], sources, 1, 0, bytes);
}

#if defined(__x86_64__)
typedef void store_t(char *to, const char *from, size_t lines);

typedef long long narrow_t __attribute__((vector_size(16), aligned(1), may_alias));
typedef long long wide_t __attribute__((vector_size(64), aligned(1), may_alias));

static void store_narrow(char *to, const char *from, size_t lines) {
  for (size_t i = 0; i < lines * BASE_CACHE_LINE; i += sizeof(narrow_t)) {
    narrow_t *target = (narrow_t *)(to + i);
    __asm__ volatile("movntdq %1, %0" : "=m"(*target) : "x"(*(const narrow_t *)(from + i)));
  }
}

__attribute__((target("avx512f"))) static void store_wide(char *to, const char *from,
                                                          size_t lines) {
  for (size_t i = 0; i < lines * BASE_CACHE_LINE; i += sizeof(wide_t)) {
    wide_t *target = (wide_t *)(to + i);
    __asm__ volatile("vmovntdq %1, %0" : "=m"(*target) : "v"(*(const wide_t *)(from + i)));
  }
}

/* The lines that `to` covers only in part are stored through the caches. */
static void store_around_caches(store_t *store, char *to, const char *from, size_t bytes) {
  size_t head = min_size((size_t)(-(uintptr_t)to % BASE_CACHE_LINE), bytes);
  size_t lines = (bytes - head) / BASE_CACHE_LINE, done = head + lines * BASE_CACHE_LINE;
  memcpy(to, from, head);
  store(to + head, from + head, lines);
  memcpy(to + done, from + done, bytes - done);
}

static void copy_nontemporal(void *const dsts[], int dst_count, int cached_dsts,
                             const void *const sources[], int source_count, size_t bytes) {
  _Alignas(BASE_CACHE_LINE) char sum[BLOCK_BYTES];
  store_t *store = __builtin_cpu_supports("avx512f") ? store_wide : store_narrow;
  for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
    size_t part = min_size(BLOCK_BYTES, bytes - at);
    const char *result = block_of(sources[0], at);
    if (source_count > 1) {
      sum_block(sum, sources, source_count, at, part);
      result = sum;
    }
    for (int d = 0; d < cached_dsts; d++) memcpy((char *)dsts[d] + at, result, part);
    for (int d = cached_dsts; d < dst_count; d++)
      store_around_caches(store, (char *)dsts[d] + at, result, part);
  }
  __asm__ volatile("sfence" ::: "memory");
}

static void copy_string(void *const dsts[], int dst_count, int cached_dsts,
                        const void *const sources[], int source_count, size_t bytes) {
  if (source_count > 1) {
    copy_memcpy(dsts, dst_count, cached_dsts, sources, source_count, bytes);
    return;
  }
  for (int d = 0; d < dst_count; d++) base_move_string(dsts[d], sources[0], bytes);
}

static bench_copy_kernel_t *const kernels[] = {copy_memcpy, copy_string, copy_nontemporal,
                                               bench_copy_vectors};
#else
static bench_copy_kernel_t *const kernels[] = {copy_memcpy, bench_copy_vectors};
#endif

bench_copy_kernel_t *bench_copy_kernel(int index) {
  int count = (int)(sizeof kernels / sizeof kernels[0]);
  return index < count ? kernels[index] : NULL;
}
