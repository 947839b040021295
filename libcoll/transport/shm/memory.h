/*
 * The memory behind coll_mem_alloc: a process-wide table of shared segments, so that a transport
 * can tell whether a buffer is one that peers can map. Thread-safe.
 */
#ifndef TRANSPORT_SHM_MEMORY_H
#define TRANSPORT_SHM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed, page-aligned; bytes 0 gives a page. */
coll_status_t shm_memory_alloc(size_t bytes, void **ptr);

/* COLL_ERROR_INVALID for anything that shm_memory_alloc did not return. NULL is fine. */
coll_status_t shm_memory_free(void *ptr);

/* A stretch of the table's memory, as a peer needs to know it. */
typedef struct shm_memory_place {
  uint64_t segment; /* random, unique on the machine, never 0, never used again */
  const char *segment_base;
  size_t segment_bytes;
  uint64_t offset;
  int fd; /* a duplicate, the caller's to close; -1 unless asked for */
} shm_memory_place_t;

/* Whether [ptr, ptr+bytes) lies within one allocation, and where. */
bool shm_memory_find(const void *ptr, size_t bytes, bool want_fd, shm_memory_place_t *place);

/* Whether that allocation still exists. */
bool shm_memory_exists(uint64_t segment);

/* How many allocations were freed so far. While it stays the same, what was found is found again.
 */
uint64_t shm_memory_freed(void);

#endif
