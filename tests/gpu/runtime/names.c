/*
 * Names and texts of errors.
 */
#include "gpu/runtime/runtime.h"

typedef struct error {
  cudaError_t error;
  const char *name, *text;
} error_t;

#define ERROR(error, text) \
  { error, #error, text }
static const error_t errors[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered,
          "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureMerge,
          "operation would result in a merge of separate capture sequences"),
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    ERROR(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(cudaErrorUnknown, "unknown error"),
};

static const error_t *find(cudaError_t error) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (errors[i].error == error) return &errors[i];
  }
  return NULL;
}

const char *cudaGetErrorName(cudaError_t error) {
  const error_t *found = find(error);
  return found != NULL ? found->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  const error_t *found = find(error);
  return found != NULL ? found->text : "unrecognized error code";
}
