/* Cache lines asked for before they are needed. */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

/* The line is about to be written, here and by nobody else: it comes for keeps, not to be shared.
 * Processors without such an instruction ignore this one. */
static inline void base_prefetch_write(const void *line) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
  __builtin_prefetch(line, 1);
#endif
}

#endif
