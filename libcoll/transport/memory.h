/*
 * Memory that ranks of the same host can map, for coll_mem_alloc and the library's own buffers.
 * Thread-safe.
 */
#ifndef TRANSPORT_MEMORY_H
#define TRANSPORT_MEMORY_H

#include <stddef.h>

#include "base/status.h"

/* Zeroed and page-aligned; 0 bytes gives one page. Freed with transport_memory_free.
 * COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t transport_memory_alloc(size_t bytes, void **ptr);

/* COLL_ERROR_INVALID for a pointer that transport_memory_alloc did not return. NULL is allowed. */
coll_status_t transport_memory_free(void *ptr);

#endif
