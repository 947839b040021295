/* Queries CPUID once and caches the answer. */
#include "base/move.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>

#define ENHANCED_STRINGS (1u << 9) /* ERMS: leaf 7, EBX */

bool base_moves_strings(void) {
  enum { UNKNOWN, NO, YES };
  static atomic_int known = UNKNOWN; /* written by any thread, always with the same value */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == UNKNOWN) {
    unsigned eax, ebx = 0, ecx, edx;
    bool there = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0;
    answer = there && (ebx & ENHANCED_STRINGS) != 0 ? YES : NO;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == YES;
}
#else
bool base_moves_strings(void) {
  return false;
}
#endif
