/* Prefetching cache lines for writing. */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

/* Prefetches a line that only this thread is about to write: it is requested in exclusive state.
 * Processors without the instruction ignore it. */
static inline void base_prefetch_write(const void *line) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
  __builtin_prefetch(line, 1);
#endif
}

#endif
