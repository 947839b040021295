/*
 * The bytes that a collective must move between hosts, over plain sockets, and its passes over
 * memory. Every rank works on its share of the data with the ranks of the same number on the other
 * hosts, so that no byte crosses the network twice.
 */
#ifndef BENCH_LIMIT_MOVES_H
#define BENCH_LIMIT_MOVES_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#include "bench/limit_links.h"
#include "bench/limit_variants.h"

typedef struct limit_moves {
  const limit_links_t *links;
  const limit_variant_t *variant;
  bool yields; /* more ranks than cores: a rank that spins gives up its core */
  char *scratch;
  size_t scratch_bytes;
} limit_moves_t;

bool limit_moves_support(coll_collective_t collective);

/* Allocates the scratch memory for calls of at most that many bytes. Free it with free(). */
coll_status_t limit_moves_make(const limit_links_t *links, size_t bytes, limit_moves_t *moves);

/* Makes the call; count: as in the function of coll.h, float32. The results are right with one rank
 * per host. With several, the ranks of a host do not exchange data: each of them passes over its
 * own buffers as often as it would over those of its host. */
coll_status_t limit_moves_call(limit_moves_t *moves, coll_collective_t collective, size_t count,
                               const void *send, void *recv);

#endif
