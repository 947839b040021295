/* Digests of plain data by which ranks compare what they have: FNV-1a (Fowler, Noll & Vo), a word
 * at a time. Not for data from an adversary. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdint.h>

#define BASE_DIGEST_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t base_digest_fold(uint64_t digest, uint64_t word) {
  return (digest ^ word) * UINT64_C(0x100000001b3);
}

#endif
