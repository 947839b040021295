/*
 * The kernels on a GPU. A process loads them once for each context, as that takes time, and memory
 * of the GPU. All are loaded at once: to load one while another waits for a peer may wait for that
 * other.
 */
#ifndef DEVICE_CUDA_CODE_H
#define DEVICE_CUDA_CODE_H

#include "device/cuda/call.h"
#include "device/cuda/driver.h"

typedef struct cuda_code {
  cuda_function_t run[COLL_DTYPE_COUNT][GPU_OPS_COUNT];     /* kernel.c */
  cuda_function_t compute[COLL_DTYPE_COUNT][GPU_OPS_COUNT]; /* compute_kernel.c */
  int blocks_each; /* of `run` that a multiprocessor holds at once: the least of all kernels */
} cuda_code_t;

/* The build has kernels (image.h). Both with the context current, by any thread. COLL_ERROR_SYSTEM,
 * _MEMORY; COLL_ERROR_UNSUPPORTED: they do not run on this GPU. */
coll_status_t cuda_code_take(const cuda_driver_t *driver, int device, cuda_context_t context,
                             const cuda_code_t **code);
void cuda_code_release(const cuda_code_t *code);

#endif
