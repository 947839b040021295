/*
 * Devices: which there are, what they can do, and the one of the calling thread.
 */
#include <cuda_profiler_api.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/runtime/runtime.h"

cudaError_t cudaGetDeviceCount(int *count) {
  cuda_result_t result = runtime_start();
  return runtime_end(result == CUDA_RESULT_OK ? cuDeviceGetCount(count) : result);
}

cudaError_t cudaSetDevice(int device) {
  return runtime_end(runtime_use_device(device));
}

cudaError_t cudaGetDevice(int *device) {
  if (device == NULL) return runtime_end(CUDA_RESULT_INVALID_VALUE);
  return runtime_end(runtime_device(device));
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return runtime_end((flags & ~(unsigned)cudaDeviceMask) != 0 ? CUDA_RESULT_INVALID_VALUE
                                                              : runtime_start());
}

cudaError_t cudaDeviceSynchronize(void) {
  cuda_result_t result = runtime_enter();
  return runtime_end(result == CUDA_RESULT_OK ? cuCtxSynchronize() : result);
}

cudaError_t cudaDeviceReset(void) {
  return runtime_end(runtime_reset_device());
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  if (version == NULL) return runtime_end(CUDA_RESULT_INVALID_VALUE);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  return runtime_end(cuDriverGetVersion(version));
}

/* ---- properties ------------------------------------------------------------------------------*/

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK && value == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK) {
    result = cuDeviceGetAttribute(value, (cuda_attribute_t)attribute, device);
  }
  return runtime_end(result);
}

static int attribute(int device, enum cudaDeviceAttr attribute) {
  int value = 0;
  return cuDeviceGetAttribute(&value, (cuda_attribute_t)attribute, device) == CUDA_RESULT_OK ? value
                                                                                             : 0;
}

/* What programs for NCCL print or decide by; the rest is 0. */
static void fill(struct cudaDeviceProp *prop, int device) {
  prop->major = attribute(device, cudaDevAttrComputeCapabilityMajor);
  prop->minor = attribute(device, cudaDevAttrComputeCapabilityMinor);
  prop->multiProcessorCount = attribute(device, cudaDevAttrMultiProcessorCount);
  prop->warpSize = attribute(device, cudaDevAttrWarpSize);
  prop->maxThreadsPerBlock = attribute(device, cudaDevAttrMaxThreadsPerBlock);
  prop->maxThreadsPerMultiProcessor = attribute(device, cudaDevAttrMaxThreadsPerMultiProcessor);
  prop->unifiedAddressing = attribute(device, cudaDevAttrUnifiedAddressing);
  prop->canMapHostMemory = attribute(device, cudaDevAttrCanMapHostMemory);
  prop->managedMemory = attribute(device, cudaDevAttrManagedMemory);
  prop->concurrentManagedAccess = attribute(device, cudaDevAttrConcurrentManagedAccess);
  prop->cooperativeLaunch = attribute(device, cudaDevAttrCooperativeLaunch);
  prop->pciBusID = attribute(device, cudaDevAttrPciBusId);
  prop->streamPrioritiesSupported = 1;
  prop->concurrentKernels = 1;
  prop->asyncEngineCount = 1;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
  cuda_uuid_t uuid;
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK && prop == NULL) result = CUDA_RESULT_INVALID_VALUE;
  if (result != CUDA_RESULT_OK) return runtime_end(result);
  memset(prop, 0, sizeof *prop);
  result = cuDeviceGetName(prop->name, sizeof prop->name, device);
  if (result == CUDA_RESULT_OK) result = cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
  if (result == CUDA_RESULT_OK) result = cuDeviceGetUuid_v2(&uuid, device);
  if (result != CUDA_RESULT_OK) return runtime_end(result);
  memcpy(prop->uuid.bytes, uuid.bytes, sizeof uuid.bytes);
  fill(prop, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device) {
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK && (id == NULL || bytes < 13)) result = CUDA_RESULT_INVALID_VALUE;
  return runtime_end(result == CUDA_RESULT_OK ? cuDeviceGetPCIBusId(id, bytes, device) : result);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
  char text[32];
  int count = 0;
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK) result = cuDeviceGetCount(&count);
  for (int i = 0; i < count; i++) {
    if (cuDeviceGetPCIBusId(text, sizeof text, i) != CUDA_RESULT_OK) continue;
    if (strcmp(text, id) != 0) continue;
    *device = i;
    return cudaSuccess;
  }
  return runtime_end(result == CUDA_RESULT_OK ? CUDA_RESULT_INVALID_VALUE : result);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = cuCtxGetStreamPriorityRange(least, greatest);
  return runtime_end(result);
}

/* ---- peers -----------------------------------------------------------------------------------*/

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  cuda_result_t result = runtime_start();
  return runtime_end(result == CUDA_RESULT_OK ? cuDeviceCanAccessPeer(can, device, peer) : result);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  cuda_context_t context;
  int device;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = runtime_context(peer, &context);
  if (result == CUDA_RESULT_OK) result = runtime_device(&device);
  if (result == CUDA_RESULT_OK && device == peer) result = CUDA_RESULT_INVALID_DEVICE;
  return runtime_end(result == CUDA_RESULT_OK ? cuCtxEnablePeerAccess(context, flags) : result);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  cuda_context_t context;
  cuda_result_t result = runtime_enter();
  if (result == CUDA_RESULT_OK) result = runtime_context(peer, &context);
  return runtime_end(result == CUDA_RESULT_OK ? cuCtxDisablePeerAccess(context) : result);
}

/* ---- others ---------------------------------------------------------------------------------*/

cudaError_t cudaProfilerStart(void) {
  return runtime_end(runtime_start());
}

cudaError_t cudaProfilerStop(void) {
  return runtime_end(runtime_start());
}

cuda_result_t cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                  cuda_symbol_status_t *status); /* of the stand-in */

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
  cuda_symbol_status_t status = CUDA_SYMBOL_MISSING;
  cuda_result_t result = runtime_start();
  if (result != CUDA_RESULT_OK) return runtime_end(result);
  result = cuGetProcAddress_v2(name, function, (int)version, flags, &status);
  if (found != NULL) *found = (enum cudaDriverEntryPointQueryResult)status;
  return runtime_end(result == CUDA_RESULT_NOT_FOUND ? CUDA_RESULT_OK : result);
}
