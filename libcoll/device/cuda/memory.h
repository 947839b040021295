/*
 * Memory of a GPU that other processes can map. It is allocated through the driver's virtual memory
 * management: physical memory with a handle, which is exported as a file descriptor, and a range
 * of addresses to which it is mapped.
 */
#ifndef DEVICE_CUDA_MEMORY_H
#define DEVICE_CUDA_MEMORY_H

#include "device/cuda/driver.h"

typedef struct cuda_memory {
  cuda_ptr_t address; /* 0: nothing is allocated */
  size_t bytes;       /* a multiple of the device's granularity, usually 2 MiB */
  int device;         /* where the memory is */
  int context;        /* the device whose primary context is kept alive for the mapping */
  cuda_mem_t handle;
} cuda_memory_t;

/* COLL_ERROR_UNSUPPORTED: what the device lacks for memory that others can map. */
coll_status_t cuda_memory_check_sharing(const cuda_driver_t *driver, int device);

/* Allocates at least `bytes` (0 counts as 1), zeroed, readable and writable by the device, and by
 * all other devices of this process that can access it. COLL_ERROR_INVALID: no such device.
 * COLL_ERROR_MEMORY; COLL_ERROR_UNSUPPORTED: the device cannot share memory. After a failure
 * memory->address is 0. */
coll_status_t cuda_memory_alloc(const cuda_driver_t *driver, int device, size_t bytes,
                                cuda_memory_t *memory);

/* Unmaps and frees memory of cuda_memory_alloc or cuda_memory_import, and clears the struct. The
 * memory itself is freed when no process maps it any more. No copy or kernel may use it. */
coll_status_t cuda_memory_free(const cuda_driver_t *driver, cuda_memory_t *memory);

/* Makes a file descriptor of the memory, which the caller closes. Another process passes its copy
 * to cuda_memory_import. */
coll_status_t cuda_memory_export(const cuda_driver_t *driver, const cuda_memory_t *memory,
                                 int *descriptor);

/* Maps memory that another process exported, of the size there, for `device` and all other devices
 * of this process that can access it. memory->device is where it is, as this process counts
 * devices; CUDA_NO_DEVICE if it does not see that one (CUDA_VISIBLE_DEVICES). The descriptor stays
 * the caller's, and may be closed afterwards. COLL_ERROR_UNSUPPORTED: `device` cannot access the
 * other device's memory. After a failure memory->address is 0. */
coll_status_t cuda_memory_import(const cuda_driver_t *driver, int device, int descriptor,
                                 size_t bytes, cuda_memory_t *memory);

#endif
