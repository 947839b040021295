/*
 * Addition to C11 atomics: the pause instruction between two polls of a flag.
 */
#ifndef BASE_ATOMICS_H
#define BASE_ATOMICS_H

#include <stdatomic.h>

/* Hint to the processor that this is a wait loop. */
static inline void base_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
