/*
 * One rank of `limit`. The ranks are processes that measure together and communicate through shared
 * memory.
 */
#ifndef BENCH_LIMIT_RANK_H
#define BENCH_LIMIT_RANK_H

#include <coll.h>

#include <stddef.h>

#include "bench/lower_bound.h"

#define LIMIT_RANKS_MAX BENCH_OPERANDS_MAX
#define LIMIT_LIST_MAX 64

typedef struct limit_settings {
  int ranks;
  coll_collective_t collective;
  size_t sizes[LIMIT_LIST_MAX], cpus[LIMIT_LIST_MAX]; /* no cpus: the kernel places the ranks */
  int size_count, cpu_count;
} limit_settings_t;

/* Size of the shared memory. It must be zeroed and page-aligned. */
coll_status_t limit_memory_bytes(const limit_settings_t *settings, size_t *bytes);

/* Runs as rank `number`; all ranks must call it. Rank 0 prints the results as one line of JSON. */
coll_status_t limit_rank_run(const limit_settings_t *settings, int number, void *memory);

#endif
