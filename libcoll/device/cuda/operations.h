/*
 * Operations of streams for which drivers and GPUs differ: launches of kernels, and copies that are
 * queued together. The GPU's context is current.
 */
#ifndef DEVICE_CUDA_OPERATIONS_H
#define DEVICE_CUDA_OPERATIONS_H

#include "device/cuda/driver.h"

/* ---- kernels ---------------------------------------------------------------------------------*/

/* A GPU may have several domains of memory synchronization: a fence waits for the stores of the
 * kernels in its own domain alone. Kernels of this library store to other GPUs, which takes long,
 * so they are in another domain than those of programs, whose fences then do not wait for them.
 * Between the domains only what is ordered in the whole system is: flags, and streams. */
typedef struct cuda_launcher {
  const cuda_driver_t *driver;
  int device;
  bool has_domains;
} cuda_launcher_t;

coll_status_t cuda_launcher_init(const cuda_driver_t *driver, int device,
                                 cuda_launcher_t *launcher);

/* Launches a kernel of one argument, which is copied. */
coll_status_t cuda_launch(const cuda_launcher_t *launcher, cuda_function_t kernel, uint32_t blocks,
                          uint32_t threads, void *argument, cuda_stream_t stream);

#endif
