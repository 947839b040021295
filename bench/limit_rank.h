/*
 * One rank of the limit: what it measures together with the others, by way of memory that all
 * share.
 */
#ifndef BENCH_LIMIT_RANK_H
#define BENCH_LIMIT_RANK_H

#include <coll.h>

#include <stddef.h>

#include "bench/moves.h"

#define LIMIT_RANKS_MAX BENCH_MOVE_PLACES_MAX
#define LIMIT_LIST_MAX 64

typedef struct limit_settings {
  int ranks;
  coll_collective_t collective;
  size_t sizes[LIMIT_LIST_MAX], cpus[LIMIT_LIST_MAX]; /* no cpus: the system's choice */
  int size_count, cpu_count;
} limit_settings_t;

/* Of the memory that the ranks share: zeroed, and mapped by each of them at a page. */
coll_status_t limit_memory_bytes(const limit_settings_t *settings, size_t *bytes);

/* As rank `number`, while all others do the same. Rank 0 prints the figures as a line of JSON. */
coll_status_t limit_rank_run(const limit_settings_t *settings, int number, void *memory);

#endif
