/*
 * Multicast objects, which no virtual GPU has.
 */
#include "gpu/standin/state.h"

cuda_result_t cuMulticastCreate(cuda_mem_t *handle, const cuda_multicast_prop_t *prop) {
  (void)handle, (void)prop;
  return CUDA_RESULT_NOT_SUPPORTED;
}

cuda_result_t cuMulticastAddDevice(cuda_mem_t handle, cuda_device_t device) {
  (void)handle, (void)device;
  return CUDA_RESULT_NOT_SUPPORTED;
}

cuda_result_t cuMulticastBindMem(cuda_mem_t handle, size_t offset, cuda_mem_t memory,
                                 size_t memory_offset, size_t bytes, unsigned long long flags) {
  (void)handle, (void)offset, (void)memory, (void)memory_offset, (void)bytes, (void)flags;
  return CUDA_RESULT_NOT_SUPPORTED;
}

cuda_result_t cuMulticastUnbind(cuda_mem_t handle, cuda_device_t device, size_t offset,
                                size_t bytes) {
  (void)handle, (void)device, (void)offset, (void)bytes;
  return CUDA_RESULT_NOT_SUPPORTED;
}

cuda_result_t cuMulticastGetGranularity(size_t *bytes, const cuda_multicast_prop_t *prop,
                                        cuda_multicast_granularity_t option) {
  (void)bytes, (void)prop, (void)option;
  return CUDA_RESULT_NOT_SUPPORTED;
}
