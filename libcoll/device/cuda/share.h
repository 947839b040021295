/*
 * Memory of GPUs that the program has allocated in whatever way, made accessible to the GPUs of
 * other ranks: those of other processes import it, by a file descriptor where it was allocated
 * through virtual memory management, by a handle of CUDA IPC where it comes from cudaMalloc.
 */
#ifndef DEVICE_CUDA_SHARE_H
#define DEVICE_CUDA_SHARE_H

#include "device/cuda/memory.h"

typedef enum cuda_share_way {
  CUDA_SHARE_NONE,       /* no memory of a GPU */
  CUDA_SHARE_PRIVATE,    /* other processes cannot map it */
  CUDA_SHARE_DESCRIPTOR, /* by the file descriptor that cuda_share_export makes */
  CUDA_SHARE_IPC         /* by `ipc` */
} cuda_share_way_t;

/* What a rank tells the others of its memory; plain data. */
typedef struct cuda_share {
  int32_t way;        /* a cuda_share_way_t */
  int32_t device;     /* as the owner counts devices */
  int32_t is_virtual; /* allocated through virtual memory management */
  int32_t reserved;
  uint64_t base, bytes; /* the allocation, in the owner's addresses */
  uint64_t offset;      /* of the memory in question */
  cuda_ipc_handle_t ipc;
} cuda_share_t;

/* Finds the allocation that has all of [ptr, ptr + bytes), which is memory of the device. A share
 * that is PRIVATE has set the thread's last error to the reason. COLL_ERROR_UNSUPPORTED: the range
 * is in several allocations. COLL_ERROR_SYSTEM. */
coll_status_t cuda_share_describe(const cuda_driver_t *driver, int device, const void *ptr,
                                  size_t bytes, cuda_share_t *share);

/* Makes the descriptor of a share of this process, which the caller closes. */
coll_status_t cuda_share_export(const cuda_driver_t *driver, const cuda_share_t *share,
                                int *descriptor);

/* A share as GPUs of this process address it. */
typedef struct cuda_mapping {
  cuda_ptr_t address;   /* of the memory in question; 0: not mapped */
  cuda_memory_t memory; /* imported, or nothing */
  cuda_ptr_t opened;    /* by CUDA IPC in the context of `device`, or 0 */
  int device;
} cuda_mapping_t;

/* Maps a share of another process for `device`. descriptor: that of its cuda_share_export, which
 * stays the caller's; else ignored. COLL_ERROR_UNSUPPORTED: the GPU cannot access it. The owner
 * must not free memory that is shared by CUDA IPC before it is unmapped. */
coll_status_t cuda_share_map(const cuda_driver_t *driver, int device, const cuda_share_t *share,
                             int descriptor, cuda_mapping_t *mapping);

/* Lets `device` access a share of this process. The mapping needs no unmapping. */
coll_status_t cuda_share_open(const cuda_driver_t *driver, int device, const cuda_share_t *share,
                              cuda_mapping_t *mapping);

/* Undoes cuda_share_map and clears the mapping. No copy or kernel may use it. */
coll_status_t cuda_share_unmap(const cuda_driver_t *driver, cuda_mapping_t *mapping);

#endif
