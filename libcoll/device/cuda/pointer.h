/*
 * What kind of memory an address is in, by the attributes that NVIDIA's driver keeps.
 */
#ifndef DEVICE_CUDA_POINTER_H
#define DEVICE_CUDA_POINTER_H

#include "device/cuda/driver.h"

typedef enum cuda_pointer_kind {
  CUDA_KIND_PLAIN,  /* unknown to CUDA: malloc, mmap, the stack */
  CUDA_KIND_PINNED, /* host memory that CUDA allocated or registered */
  CUDA_KIND_DEVICE,
  CUDA_KIND_MANAGED /* moves between host and devices; the host may access it */
} cuda_pointer_kind_t;

typedef struct cuda_pointer {
  cuda_pointer_kind_t kind;
  int device; /* whose memory it is, or whose context allocated it; CUDA_NO_DEVICE for plain */
} cuda_pointer_t;

/* Works in threads without a current context. NULL is plain memory. COLL_ERROR_SYSTEM: the driver
 * has failed, such as after an Xid. */
coll_status_t cuda_pointer_query(const cuda_driver_t *driver, const void *ptr,
                                 cuda_pointer_t *pointer);

/* Whether it is memory of a GPU, which the host cannot access. False, without loading the driver,
 * in a process that has not loaded it. */
bool cuda_pointer_is_device(const void *ptr);

/* "plain memory", "pinned memory", "device memory", "managed memory" */
const char *cuda_pointer_kind_name(cuda_pointer_kind_t kind);

#endif
