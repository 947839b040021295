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

static int attribute_of(cuda_attribute_t attribute, cuda_device_t device) {
  switch ((int)attribute) {
    case CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case 10: return 32; /* threads of a warp */
    case CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT: return STANDIN_MULTIPROCESSORS;
    case 19: return 1;                           /* host memory can be mapped */
    case 33: return 0x10 + standin.gpus[device]; /* PCI bus */
    case CUDA_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return STANDIN_MULTIPROCESSOR_THREADS;
    case CUDA_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
    case CUDA_ATTRIBUTE_COMPUTE_MAJOR: return 9;
    case 83:           /* managed memory */
    case 89: return 1; /* which CPUs and GPUs can access together */
    case CUDA_ATTRIBUTE_COOPERATIVE_LAUNCH: return 1;
    case CUDA_ATTRIBUTE_MAX_SHARED_PER_BLOCK_OPTIN: return 227 << 10;
    case CUDA_ATTRIBUTE_VMM: return standin.vmm;
    case CUDA_ATTRIBUTE_HANDLE_POSIX: return standin.vmm;
    case CUDA_ATTRIBUTE_STREAM_64_BIT_OPS: return 1;
    case CUDA_ATTRIBUTE_SYNC_DOMAINS: return standin.domains;
    case CUDA_ATTRIBUTE_MPS: return standin.mps;
    default: return 0;
  }
}

cuda_result_t cuDeviceGetAttribute(int *value, cuda_attribute_t attribute, cuda_device_t device) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  *value = attribute_of(attribute, device);
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
  *can = device != peer && standin_reaches(standin.gpus[device], standin.gpus[peer]);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuDeviceGetP2PAttribute(int *value, cuda_p2p_attribute_t attribute,
                                      cuda_device_t device, cuda_device_t peer) {
  cuda_result_t result = enter_device(device);
  if (result != CUDA_RESULT_OK) return result;
  bool is_pair = peer >= 0 && peer < standin.device_count && peer != device;
  if (!is_pair) return standin_leave(CUDA_RESULT_INVALID_DEVICE);
  *value = attribute == CUDA_P2P_NATIVE_ATOMICS && standin.nvlink &&
           standin_reaches(standin.gpus[device], standin.gpus[peer]);
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
    {CUDA_RESULT_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_RESULT_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_RESULT_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CUDA_RESULT_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CUDA_RESULT_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CUDA_RESULT_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CUDA_RESULT_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CUDA_RESULT_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_RESULT_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
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
