/*
 * Non-temporal stores. They avoid reading the lines that are overwritten and do not evict others,
 * but a later load has to come from memory: they pay for destinations that would not stay cached
 * anyway. Included by table.c alone; empty for instruction sets without them.
 */
#ifndef DEVICE_HOST_STREAM_H
#define DEVICE_HOST_STREAM_H

#include <stddef.h>
#include <string.h>

#define STREAM_LINE 64

#if defined(HOST_VECTORS) && defined(__x86_64__)
#include <immintrin.h>
#define STREAM_AVAILABLE true

/* Copies one cache line; dst is aligned to it. */
static inline void stream_line(void *dst, const void *src) {
#ifdef __AVX512F__
  _mm512_stream_si512(dst, _mm512_loadu_si512(src));
#else
  const __m256i *from = src;
  __m256i *to = dst, low = _mm256_loadu_si256(from), high = _mm256_loadu_si256(from + 1);
  _mm256_stream_si256(to, low);
  _mm256_stream_si256(to + 1, high);
#endif
}

/* Non-temporal stores wait in write-combining buffers of the core and are not ordered with later
 * stores, not even with the store of the flag that announces the data to a peer. */
static inline void stream_end(void) {
  _mm_sfence();
}

#elif defined(HOST_VECTORS) && defined(__aarch64__)
#define STREAM_AVAILABLE true

static inline void stream_line(void *dst, const void *src) {
  __asm__ volatile(
      "ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\tstnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
      :
      : "r"(dst), "r"(src)
      : "v0", "v1", "v2", "v3", "memory");
}

/* On this architecture non-temporal is only a hint: the stores are ordered like any others. */
static inline void stream_end(void) {
}

#else
#define STREAM_AVAILABLE false

static inline void stream_line(void *dst, const void *src) {
  (void)dst, (void)src;
}

static inline void stream_end(void) {
}
#endif

#endif
