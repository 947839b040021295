/*
 * A stand-in for NVIDIA's CUDA runtime, on the stand-in for its driver (gpu/standin): a
 * libcudart.so.13 with the functions that programs for NCCL call, for tests on machines without a
 * GPU. It is compiled against NVIDIA's own header, so its prototypes are NVIDIA's. A thread without
 * a current context gets the primary one of its device, which lives until the process exits or
 * resets the device. Numbers of errors are the driver's, as NVIDIA's are. There are no kernels of
 * programs: no program here is compiled by nvcc.
 */
#ifndef TESTS_GPU_RUNTIME_RUNTIME_H
#define TESTS_GPU_RUNTIME_RUNTIME_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "gpu/standin/functions.h"

/* Begins a call that needs a driver, but no context. */
cuda_result_t runtime_start(void);

/* Begins a call: makes the context of the thread's device current, unless one is. */
cuda_result_t runtime_enter(void);

/* Ends every call that can fail: a failure is the thread's last error from now on. */
cudaError_t runtime_end(cuda_result_t result);

/* The primary context of the device, which is then active. The current one stays. */
cuda_result_t runtime_context(int device, cuda_context_t *context);

/* Of the current context. */
cuda_result_t runtime_device(int *device);

/* Makes it the device of the thread; or the thread has no context until it next needs one. */
cuda_result_t runtime_use_device(int device);
cuda_result_t runtime_reset_device(void);

/* What an address is. */
typedef enum runtime_memory {
  RUNTIME_PLAIN, /* memory that CUDA does not know */
  RUNTIME_PINNED,
  RUNTIME_MANAGED,
  RUNTIME_DEVICE
} runtime_memory_t;

/* device: as CUDA says, -2 for plain memory. */
cuda_result_t runtime_memory(const void *address, runtime_memory_t *memory, int *device);

static inline cuda_ptr_t runtime_address(const void *address) {
  return (cuda_ptr_t)(uintptr_t)address;
}

#endif
