/*
 * Start and end of calls, and of the process: contexts, and the last error of a thread.
 */
#include "gpu/runtime/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "gpu/runtime/refused.h"
#include "gpu/standin/standin.h"

typedef struct primary {
  _Atomic(cuda_context_t) context; /* once it was active */
  atomic_bool is_active;           /* retained by the runtime */
} primary_t;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cuda_result_t start_result;
static pid_t pid; /* of the process that started the driver */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static primary_t primaries[STANDIN_GPUS_MAX];
static _Thread_local int thread_device;
static _Thread_local cudaError_t last_error;

/* A runtime works with drivers of its own major version, and later ones. */
static void start(void) {
  int version = 0;
  start_result = cuDriverGetVersion(&version);
  if (start_result == CUDA_RESULT_OK && version / 1000 < CUDART_VERSION / 1000) {
    start_result = (cuda_result_t)cudaErrorInsufficientDriver;
  }
  if (start_result == CUDA_RESULT_OK) start_result = cuInit(0);
  pid = getpid();
}

cuda_result_t runtime_start(void) {
  pthread_once(&once, start);
  return start_result;
}

/* ---- contexts --------------------------------------------------------------------------------*/

static cuda_result_t activate(primary_t *primary, int device) {
  cuda_context_t context;
  cuda_result_t result = CUDA_RESULT_OK;
  pthread_mutex_lock(&lock);
  if (!atomic_load(&primary->is_active)) {
    result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_RESULT_OK) {
      atomic_store(&primary->context, context);
      atomic_store(&primary->is_active, true);
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

cuda_result_t runtime_context(int device, cuda_context_t *context) {
  int count;
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK) result = cuDeviceGetCount(&count);
  if (result != CUDA_RESULT_OK) return result;
  if (device < 0 || device >= count) return CUDA_RESULT_INVALID_DEVICE;
  primary_t *primary = &primaries[device];
  if (!atomic_load(&primary->is_active)) result = activate(primary, device);
  if (result == CUDA_RESULT_OK) *context = atomic_load(&primary->context);
  return result;
}

/* Whether the context is a primary one of a device that was reset. */
static bool was_reset(cuda_context_t context) {
  for (int i = 0; i < STANDIN_GPUS_MAX; i++) {
    if (atomic_load(&primaries[i].context) == context) return !atomic_load(&primaries[i].is_active);
  }
  return false;
}

cuda_result_t runtime_enter(void) {
  cuda_context_t context = NULL;
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK) result = cuCtxGetCurrent(&context);
  if (result != CUDA_RESULT_OK || (context != NULL && !was_reset(context))) return result;
  return runtime_use_device(thread_device);
}

cuda_result_t runtime_device(int *device) {
  cuda_context_t context = NULL;
  cuda_result_t result = runtime_start();
  if (result == CUDA_RESULT_OK) result = cuCtxGetCurrent(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (context != NULL && !was_reset(context)) return cuCtxGetDevice(device);
  *device = thread_device;
  return CUDA_RESULT_OK;
}

cuda_result_t runtime_use_device(int device) {
  cuda_context_t context;
  cuda_result_t result = runtime_context(device, &context);
  if (result == CUDA_RESULT_OK) result = cuCtxSetCurrent(context);
  if (result == CUDA_RESULT_OK) thread_device = device;
  return result;
}

cuda_result_t runtime_reset_device(void) {
  int device;
  cuda_result_t result = runtime_device(&device);
  if (result != CUDA_RESULT_OK) return result;
  pthread_mutex_lock(&lock);
  result = cuDevicePrimaryCtxReset_v2(device);
  if (result == CUDA_RESULT_OK && atomic_exchange(&primaries[device].is_active, false)) {
    result = cuDevicePrimaryCtxRelease_v2(device);
  }
  pthread_mutex_unlock(&lock);
  if (result == CUDA_RESULT_OK) result = cuCtxSetCurrent(NULL);
  return result;
}

/* The contexts end with the process. One that has work under way is left: a program that fails
 * while its kernels wait for each other must be able to exit. */
__attribute__((destructor)) static void end(void) {
  if (pid != getpid() || standin_busy()) return;
  for (int i = 0; i < STANDIN_GPUS_MAX; i++) {
    if (atomic_load(&primaries[i].is_active)) (void)cuDevicePrimaryCtxRelease_v2(i);
  }
}

/* ---- errors ----------------------------------------------------------------------------------*/

cudaError_t runtime_end(cuda_result_t result) {
  if (result != CUDA_RESULT_OK) last_error = (cudaError_t)result;
  return (cudaError_t)result;
}

int runtime_refuse(const char *what) {
  fprintf(stderr, "libcudart stand-in: not supported: %s\n", what);
  return (int)runtime_end(CUDA_RESULT_NOT_SUPPORTED);
}

/* Whether the context is lost, so that every call fails from then on. */
static bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorAssert:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  if (!is_sticky(error)) last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) {
  return last_error;
}
