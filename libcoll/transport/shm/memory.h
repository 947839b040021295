/*
 * The memory of transport/memory.h: a process-wide table of shared segments, by which a transport
 * finds out whether peers can map a buffer. Thread-safe.
 */
#ifndef TRANSPORT_SHM_MEMORY_H
#define TRANSPORT_SHM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/memory.h"

/* Part of a segment of the table, in the form that a peer needs. */
typedef struct shm_memory_region {
  uint64_t segment; /* random, unique on the machine, never 0, never reused */
  const char *segment_base;
  size_t segment_bytes;
  uint64_t offset;
  int fd; /* duplicate owned by the caller; -1 if not requested */
} shm_memory_region_t;

/* Returns whether [ptr, ptr+bytes) is within one allocation, and describes it. */
bool shm_memory_find(const void *ptr, size_t bytes, bool want_fd, shm_memory_region_t *region);

/* Returns whether that allocation still exists. */
bool shm_memory_exists(uint64_t segment);

/* Number of allocations freed so far. While it is unchanged, earlier results of shm_memory_find
 * stay valid. */
uint64_t shm_memory_freed(void);

#endif
