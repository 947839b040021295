/*
 * What CUDA's driver knows, if the program has loaded it, and the few calls of it that the front
 * end makes itself; all else of GPUs is coll.h's.
 */
#ifndef FRONTENDS_NCCL_DRIVER_H
#define FRONTENDS_NCCL_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum nccl_memory {
  NCCL_MEMORY_PLAIN,  /* that the driver does not know, and NULL */
  NCCL_MEMORY_SHARED, /* of the host and of GPUs: pinned and managed memory */
  NCCL_MEMORY_DEVICE  /* of a GPU, that this process cannot read */
} nccl_memory_t;

/* Looks for the driver, which programs load before they make a communicator. True: it is there. */
bool nccl_driver_find(void);

/* The device whose context is current in the calling thread; -1: none is. */
int nccl_driver_device(void);

/* The number of GPUs of this process, whose driver it initializes; 0: no driver was found. */
int nccl_driver_devices(void);

nccl_memory_t nccl_driver_memory(const void *ptr);

/* Makes the device's context current in the calling thread until nccl_driver_leave. False: it
 * cannot. */
bool nccl_driver_enter(int device);
void nccl_driver_leave(int device);

/* Copies from memory of the device, behind what its default stream has to do. False: it cannot. */
bool nccl_driver_read(int device, void *host, const void *ptr, size_t bytes);

#endif
