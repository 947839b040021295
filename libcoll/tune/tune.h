/*
 * Which algorithm carries out a call: pure code over what every rank knows alike, so that all ranks
 * choose the same without talking. The answer is an order of preference; the communicator takes the
 * first that its transports have room for.
 */
#ifndef TUNE_TUNE_H
#define TUNE_TUNE_H

#include "algo/algo.h"

typedef struct tune_query {
  coll_collective_t collective;
  size_t bytes;       /* of a block: count * element size */
  int size;           /* ranks */
  plan_reach_t reach; /* the furthest that the memory at hand allows */
  const char *forced; /* an algorithm's name to be tried first, or NULL */
} tune_query_t;

/* The index-th choice, or NULL past the last. An algorithm may be offered more than once. */
const algo_t *tune_candidate(const tune_query_t *query, int index);

#endif
