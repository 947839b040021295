/* A set of ranks of a communicator. */
#ifndef BASE_RANKS_H
#define BASE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct base_ranks {
  int size;        /* ranks of the communicator */
  uint64_t *words; /* [base_ranks_words(size)]; bit r % 64 of word r / 64 for rank r */
} base_ranks_t;

static inline size_t base_ranks_words(int size) {
  return ((size_t)size + 63) / 64;
}

static inline void base_ranks_clear(base_ranks_t *ranks) {
  memset(ranks->words, 0, base_ranks_words(ranks->size) * sizeof *ranks->words);
}

static inline void base_ranks_add(base_ranks_t *ranks, int rank) {
  ranks->words[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void base_ranks_add_all_but(base_ranks_t *ranks, int own) {
  for (int rank = 0; rank < ranks->size; rank++) {
    if (rank != own) base_ranks_add(ranks, rank);
  }
}

static inline bool base_ranks_has(const base_ranks_t *ranks, int rank) {
  return (ranks->words[rank / 64] >> rank % 64 & 1) != 0;
}

#endif
