/*
 * One computation of a step, for the copy engines' executor (copy.h). Blocks of a launch share the
 * elements and wait for nothing.
 */
#ifndef DEVICE_CUDA_COMPUTE_KERNEL_H
#define DEVICE_CUDA_COMPUTE_KERNEL_H

#include "device/cuda/compute.h"

typedef enum gpu_compute_kind {
  GPU_COMPUTE_REDUCE, /* dst = the canonical expression over `count` sources */
  GPU_COMPUTE_SCALE,  /* dst = scalar * sources[0] */
  GPU_COMPUTE_DIVIDE  /* dst = dst / divisor */
} gpu_compute_kind_t;

typedef struct gpu_compute {
  int32_t kind, dtype, op;
  int32_t count;   /* sources, at most GPU_OPERANDS_MAX */
  int32_t divisor; /* of DIVIDE */
  uint32_t element_bytes;
  uint64_t scalar; /* of SCALE, of type dtype */
  size_t elements;
  char *dst;
  const char *sources[GPU_OPERANDS_MAX];
} gpu_compute_t;

#define GPU_COMPUTE_BLOCK_BYTES \
  ((size_t)16384) /* of an operand, for a block of a launch, at least */
#define GPU_COMPUTE_BLOCKS_MAX 32

GPU_KERNEL gpu_compute_kernel(GPU_ARGUMENT gpu_compute_t compute);

#endif
