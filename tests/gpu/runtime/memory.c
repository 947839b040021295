/*
 * Memory of devices, pinned and managed memory, and memory of other processes.
 */
#include <string.h>

#include "gpu/runtime/runtime.h"

/* Allocations of no bytes succeed, without an address. */
cudaError_t cudaMalloc(void **ptr, size_t bytes) {
  cuda_ptr_t address = 0;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK && ptr == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK && bytes > 0) result = cuMemAlloc_v2(&address, bytes);
  if (result == CUDA_RESULT_OK) *ptr = (void *)(uintptr_t)address;
  return runtime_end(result);
}

cudaError_t cudaFree(void *ptr) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? cuMemFree_v2(runtime_address(ptr)) : result);
}

cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream) {
  cuda_ptr_t address = 0;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK && ptr == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK && bytes > 0) result = cuMemAllocAsync(&address, bytes, stream);
  if (result == CUDA_RESULT_OK) *ptr = (void *)(uintptr_t)address;
  return runtime_end(result);
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream) {
  cuda_result_t result = runtime_enter();
  if (result != CUDA_RESULT_OK) return runtime_end(result);
  return runtime_end(cuMemFreeAsync(runtime_address(ptr), stream));
}

cudaError_t cudaMallocManaged(void **ptr, size_t bytes, unsigned flags) {
  cuda_ptr_t address = 0;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK && ptr == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK) result = cuMemAllocManaged(&address, bytes, flags);
  if (result == CUDA_RESULT_OK) *ptr = (void *)(uintptr_t)address;
  return runtime_end(result);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? cuMemGetInfo_v2(free_bytes, total_bytes) : result);
}

/* ---- pinned memory ---------------------------------------------------------------------------*/

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned flags) {
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK && ptr == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK) *ptr = NULL;
  if (result == CUDA_RESULT_OK && bytes > 0) result = cuMemHostAlloc(ptr, bytes, flags);
  return runtime_end(result);
}

cudaError_t cudaMallocHost(void **ptr, size_t bytes) {
  return cudaHostAlloc(ptr, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *ptr) {
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK && ptr != NULL) result = cuMemFreeHost(ptr);
  return runtime_end(result);
}

cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned flags) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? cuMemHostRegister_v2(ptr, bytes, flags) : result);
}

cudaError_t cudaHostUnregister(void *ptr) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? cuMemHostUnregister(ptr) : result);
}

cudaError_t cudaHostGetDevicePointer(void **device_ptr, void *ptr, unsigned flags) {
  cuda_ptr_t address;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = cuMemHostGetDevicePointer_v2(&address, ptr, flags);
  if (result == CUDA_RESULT_OK) *device_ptr = (void *)(uintptr_t)address;
  return runtime_end(result);
}

/* ---- what an address is ----------------------------------------------------------------------*/

cuda_result_t runtime_memory(const void *address, runtime_memory_t *memory, int *device) {
  unsigned type = 0, managed = 0;
  cuda_pointer_attribute_t attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
                                           CUDA_POINTER_DEVICE_ORDINAL};
  void *values[] = {&type, &managed, device};
  cuda_result_t result = cuPointerGetAttributes(3, attributes, values, runtime_address(address));
  if (result != CUDA_RESULT_OK) return result;
  *memory = managed != 0                      ? RUNTIME_MANAGED
            : type == CUDA_MEMORY_TYPE_DEVICE ? RUNTIME_DEVICE
            : type == CUDA_MEMORY_TYPE_HOST   ? RUNTIME_PINNED
                                              : RUNTIME_PLAIN;
  return CUDA_RESULT_OK;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr) {
  static const enum cudaMemoryType types[] = {
      [RUNTIME_PLAIN] = cudaMemoryTypeUnregistered,
      [RUNTIME_PINNED] = cudaMemoryTypeHost,
      [RUNTIME_MANAGED] = cudaMemoryTypeManaged,
      [RUNTIME_DEVICE] = cudaMemoryTypeDevice,
  };
  runtime_memory_t memory;
  int device;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK && attributes == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK) result = runtime_memory(ptr, &memory, &device);
  if (result != CUDA_RESULT_OK) return runtime_end(result);
  memset(attributes, 0, sizeof *attributes);
  attributes->type = types[memory];
  attributes->device = device;
  attributes->devicePointer = memory == RUNTIME_PLAIN ? NULL : (void *)(uintptr_t)ptr;
  attributes->hostPointer = memory == RUNTIME_DEVICE ? NULL : (void *)(uintptr_t)ptr;
  return cudaSuccess;
}

/* ---- memory of other processes ---------------------------------------------------------------*/

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr) {
  cuda_ipc_handle_t made;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = cuIpcGetMemHandle(&made, runtime_address(ptr));
  if (result == CUDA_RESULT_OK) memcpy(handle->reserved, made.bytes, sizeof made.bytes);
  return runtime_end(result);
}

cudaError_t cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t handle, unsigned flags) {
  cuda_ipc_handle_t given;
  cuda_ptr_t address;
  cuda_result_t result = runtime_enter();
  memcpy(given.bytes, handle.reserved, sizeof given.bytes);
  if (result == CUDA_RESULT_OK) result = cuIpcOpenMemHandle_v2(&address, given, flags);
  if (result == CUDA_RESULT_OK) *ptr = (void *)(uintptr_t)address;
  return runtime_end(result);
}

cudaError_t cudaIpcCloseMemHandle(void *ptr) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? cuIpcCloseMemHandle(runtime_address(ptr)) : result);
}
