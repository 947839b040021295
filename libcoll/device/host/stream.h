/*
 * Stores that go to memory past the caches. They spare the read of what is about to be overwritten
 * and leave the caches alone, but what they wrote must be fetched from memory: they pay for
 * destinations that would not have stayed in a cache anyway. Included by table.c alone, and empty
 * where an instruction set has none.
 */
#ifndef DEVICE_HOST_STREAM_H
#define DEVICE_HOST_STREAM_H

#include <stddef.h>
#include <string.h>

#define STREAM_LINE 64

#if defined(HOST_VECTORS) && defined(__x86_64__)
#include <immintrin.h>
#define STREAM_AVAILABLE true

/* A cache line; dst is aligned to it. */
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

/* Streaming stores wait in buffers of the core and are ordered with nothing that comes after them,
 * not even the store that tells a peer that the data is there. */
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

/* To this architecture non-temporal is a hint: the stores are ordered as any others. */
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
