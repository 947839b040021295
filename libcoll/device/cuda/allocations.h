/*
 * Memory of GPUs that the program owns by its address alone: the table behind coll_mem_alloc
 * and coll_mem_free. Thread-safe.
 */
#ifndef DEVICE_CUDA_ALLOCATIONS_H
#define DEVICE_CUDA_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Loads the driver, and allocates as cuda_memory_alloc does. Statuses: those of both. */
coll_status_t cuda_allocations_alloc(int device, size_t bytes, void **ptr);

/* Frees it if it is such memory (*found). Loads no driver. COLL_ERROR_SYSTEM. */
coll_status_t cuda_allocations_free(void *ptr, bool *found);

#endif
