/*
 * Properties of devices, and the names of errors.
 */
#include <stdio.h>
#include <string.h>

#include "gpu/standin/state.h"

cuda_result_t cuDeviceGetCount(int *count) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (count == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  *count = standin.device_count;
  return standin_leave(CUDA_RESULT_OK);
}

/* Enters; the device exists. */
static cuda_result_t enter_device(cuda_device_t device) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  if (device >= 0 && device < standin.device_count) return CUDA_RESULT_OK;
  return standin_leave(CUDA_RESULT_INVALID_DEVICE);
}

cuda_result_t cuDeviceGet(cuda_device_t *device, int ordinal) {
  cuda_result_t result = enter_device(ordinal);
  if (result != CUDA_RESULT_OK) return result;
  *device = ordinal;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDeviceGetName(char *name, int bytes, cuda_device_t device) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  snprintf(name, (size_t)bytes, "Virtual GPU %d", standin.gpus[device]);
  return standin_leave(CUDA_RESULT_OK);
}

static int attribute_of(cuda_attribute_t attribute) {
  switch (attribute) {
    case CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 16;
    case CUDA_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CUDA_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
    case CUDA_ATTRIBUTE_COMPUTE_MAJOR: return 9;
    case CUDA_ATTRIBUTE_COOPERATIVE_LAUNCH: return 1;
    case CUDA_ATTRIBUTE_MAX_SHARED_PER_BLOCK_OPTIN: return 227 << 10;
    case CUDA_ATTRIBUTE_VMM: return standin.vmm;
    case CUDA_ATTRIBUTE_HANDLE_POSIX: return standin.vmm;
    case CUDA_ATTRIBUTE_STREAM_64_BIT_OPS: return 1;
    default: return 0;
  }
}

cuda_result_t cuDeviceGetAttribute(int *value, cuda_attribute_t attribute, cuda_device_t device) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  *value = attribute_of(attribute);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDeviceGetUuid_v2(cuda_uuid_t *uuid, cuda_device_t device) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  char text[32];
  snprintf(text, sizeof text, "virtual GPU %04d", standin.gpus[device]);
  memcpy(uuid->bytes, text, sizeof uuid->bytes);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDeviceTotalMem_v2(size_t *bytes, cuda_device_t device) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  *bytes = standin.gpu_bytes;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDeviceGetPCIBusId(char *id, int bytes, cuda_device_t device) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0x10 + standin.gpus[device]);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDeviceCanAccessPeer(int *can, cuda_device_t device, cuda_device_t peer) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  if (peer < 0 || peer >= standin.device_count) return standin_leave(CUDA_RESULT_INVALID_DEVICE);
  *can = device != peer && standin.peers;
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- errors ----------------------------------------------------------------------------------*/

typedef struct error {
  cuda_result_t result;
  const char *name, *text;
} error_t;

static const error_t errors[] = {
    {CUDA_RESULT_OK, "CUDA_SUCCESS", "no error"},
    {CUDA_RESULT_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_RESULT_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_RESULT_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_RESULT_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_RESULT_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_RESULT_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_RESULT_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {CUDA_RESULT_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed"},
    {CUDA_RESULT_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_RESULT_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_RESULT_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_RESULT_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_RESULT_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

static const error_t *error_of(cuda_result_t result) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (errors[i].result == result) return &errors[i];
  }
  return NULL;
}

cuda_result_t cuGetErrorName(cuda_result_t result, const char **name) {
  const error_t *error = error_of(result);
  *name = error == NULL ? NULL : error->name;
  return error == NULL ? CUDA_RESULT_INVALID_VALUE : CUDA_RESULT_OK;
}

cuda_result_t cuGetErrorString(cuda_result_t result, const char **text) {
  const error_t *error = error_of(result);
  *text = error == NULL ? NULL : error->text;
  return error == NULL ? CUDA_RESULT_INVALID_VALUE : CUDA_RESULT_OK;
}
