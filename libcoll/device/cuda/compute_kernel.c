/* Each block takes a run of elements that begins on a line if dst does. */
#include "device/cuda/compute_kernel.h"

/* The first element of a block's share. */
GPU_FUNCTION size_t gpu_compute_share(const gpu_compute_t *compute, uint32_t block) {
  size_t grain = GPU_LINE / compute->element_bytes, blocks = gpu_blocks();
  size_t grains = (compute->elements + grain - 1) / grain;
  size_t first = (grains + blocks - 1) / blocks * block * grain;
  return first < compute->elements ? first : compute->elements;
}

GPU_KERNEL gpu_compute_kernel(GPU_ARGUMENT gpu_compute_t compute) {
  GPU_SHARED(const char *, sources, GPU_OPERANDS_MAX);
  size_t first = gpu_compute_share(&compute, gpu_block());
  size_t elements = gpu_compute_share(&compute, gpu_block() + 1) - first;
  size_t offset = first * compute.element_bytes;
  if (elements == 0) return;
  GPU_EACH(i, (size_t)compute.count) sources[i] = compute.sources[i] + offset;
  gpu_barrier();
  switch (compute.kind) {
    case GPU_COMPUTE_REDUCE:
      gpu_reduce(compute.dtype, compute.op, compute.dst + offset, sources, compute.count, elements,
                 compute.element_bytes);
      break;
    case GPU_COMPUTE_SCALE:
      gpu_scale(compute.dtype, compute.dst + offset, sources[0], elements, &compute.scalar);
      break;
    default: gpu_divide(compute.dtype, compute.dst + offset, elements, compute.divisor); break;
  }
}
