/*
 * Devices, contexts of threads, and errors.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/runtime/checks.h"

TestSuite(runtime_devices, .timeout = 60);

Test(runtime_devices, are_counted_and_described) {
  struct cudaDeviceProp prop;
  char id[32];
  int count, device, value, version;
  cuda_setting("COLL_STANDIN_GPUS", "3");
  CUDA_OK(cudaGetDeviceCount(&count));
  cr_assert(count == 3);
  CUDA_OK(cudaGetDevice(&device));
  cr_assert(device == 0);
  CUDA_OK(cudaGetDeviceProperties(&prop, 2));
  cr_assert(prop.major == 9 && prop.multiProcessorCount == 16 && prop.warpSize == 32);
  cr_assert(prop.totalGlobalMem == (size_t)16 << 30 && prop.managedMemory == 1);
  cr_assert(strcmp(prop.name, "Virtual GPU 2") == 0, "%s", prop.name);
  CUDA_OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
  CUDA_OK(cudaDeviceGetByPCIBusId(&device, id));
  cr_assert(device == 1);
  CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0));
  cr_assert(value == 1024);
  CUDA_OK(cudaRuntimeGetVersion(&version));
  cr_assert(version == CUDART_VERSION);
  CUDA_OK(cudaDriverGetVersion(&version));
  cr_assert(version == 13000);
  cuda_expect_clean(1); /* of the synchronization in it */
}

Test(runtime_devices, of_which_there_are_none) {
  int count;
  cuda_setting("CUDA_VISIBLE_DEVICES", "");
  CUDA_RETURNS(cudaErrorNoDevice, cudaGetDeviceCount(&count));
  CUDA_RETURNS(cudaErrorNoDevice, cudaFree(NULL));
}

Test(runtime_devices, need_a_driver_that_is_as_new) {
  int count;
  cuda_setting("COLL_STANDIN_VERSION", "12080");
  CUDA_RETURNS(cudaErrorInsufficientDriver, cudaGetDeviceCount(&count));
}

Test(runtime_devices, cannot_be_used_after_a_fork) {
  int status = 0;
  CUDA_OK(cudaFree(NULL));
  pid_t pid = fork();
  if (pid == 0) _exit(cudaFree(NULL) == cudaErrorInitializationError ? 0 : 1);
  cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *use_device(void *argument) {
  int device, wanted = *(int *)argument;
  unsigned char *memory;
  struct cudaPointerAttributes attributes;
  CUDA_OK(cudaGetDevice(&device));
  cr_assert(device == 0); /* of every new thread */
  CUDA_OK(cudaSetDevice(wanted));
  for (int i = 0; i < 50; i++) {
    memory = cuda_bytes(1000, wanted);
    cr_assert(cuda_holds(memory, 1000, wanted));
    CUDA_OK(cudaPointerGetAttributes(&attributes, memory));
    cr_assert(attributes.device == wanted && attributes.type == cudaMemoryTypeDevice);
    CUDA_OK(cudaFree(memory));
    CUDA_OK(cudaGetDevice(&device));
    cr_assert(device == wanted);
  }
  return NULL;
}

Test(runtime_devices, belong_to_threads) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  int devices[THREADS];
  cuda_setting("COLL_STANDIN_GPUS", "4");
  for (int i = 0; i < THREADS; i++) {
    devices[i] = i;
    cr_assert(pthread_create(&threads[i], NULL, use_device, &devices[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  cuda_expect_clean(4);
}

Test(runtime_devices, are_reset_with_what_they_have) {
  unsigned char *memory = cuda_bytes(100, 1);
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaMemsetAsync(memory, 1, 100, stream));
  CUDA_OK(cudaDeviceReset());
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemset(memory, 1, 100));
  memory = cuda_bytes(100, 2);
  cr_assert(cuda_holds(memory, 100, 2));
  CUDA_OK(cudaFree(memory));
  cuda_expect_clean(1);
}

Test(runtime_devices, give_access_to_peers) {
  int can;
  unsigned char *first = cuda_bytes(64, 1), *second;
  CUDA_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  cr_assert(can == 1);
  CUDA_OK(cudaSetDevice(1));
  second = cuda_bytes(64, 7);
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemsetAsync(first, 0, 64, NULL));
  CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));
  CUDA_RETURNS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(1, 0));
  CUDA_OK(cudaMemsetAsync(first, 0, 64, NULL));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaDeviceDisablePeerAccess(0));
  CUDA_OK(cudaFree(second));
  CUDA_OK(cudaFree(first));
  cuda_expect_clean(2);
}

/* ---- errors ----------------------------------------------------------------------------------*/

Test(runtime_devices, the_last_error_stays_until_it_is_asked_for) {
  void *memory;
  int count;
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaSetDevice(2));
  CUDA_OK(cudaGetDeviceCount(&count));
  CUDA_OK(cudaMalloc(&memory, 10));
  CUDA_OK(cudaFree(memory));
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaPeekAtLastError());
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaGetLastError());
  CUDA_OK(cudaGetLastError());
  CUDA_RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&memory, (size_t)1 << 40));
  CUDA_RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
}

static void *ask_error(void *result) {
  *(cudaError_t *)result = cudaGetLastError();
  return NULL;
}

Test(runtime_devices, the_last_error_is_that_of_a_thread) {
  pthread_t thread;
  cudaError_t other = cudaErrorUnknown;
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaSetDevice(-1));
  cr_assert(pthread_create(&thread, NULL, ask_error, &other) == 0);
  pthread_join(thread, NULL);
  cr_assert(other == cudaSuccess);
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaGetLastError());
}

/* The graph still has the memory that was freed. */
Test(runtime_devices, a_lost_context_fails_every_call) {
  unsigned char *memory = cuda_bytes(64, 1);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  void *other;
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaMemsetAsync(memory, 0, 64, stream));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaFree(memory));
  CUDA_OK(cudaGraphLaunch(exec, stream));
  CUDA_RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
  CUDA_RETURNS(cudaErrorIllegalAddress, cudaMalloc(&other, 64));
  CUDA_RETURNS(cudaErrorIllegalAddress, cudaGetLastError());
  CUDA_RETURNS(cudaErrorIllegalAddress, cudaGetLastError());
}

Test(runtime_devices, errors_have_names) {
  cr_assert(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
  cr_assert(strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0);
  cr_assert(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);
}

static void stub(void) {
}

Test(runtime_devices, run_no_kernels_of_programs) {
  void (*launched)(void) = stub;
  void *function = NULL;
  const void *address;
  enum cudaDriverEntryPointQueryResult found;
  struct dim3 one = {1, 1, 1};
  memcpy(&address, &launched, sizeof address);
  CUDA_RETURNS(cudaErrorNotSupported, cudaLaunchKernel(address, one, one, NULL, 0, NULL));
  CUDA_RETURNS(cudaErrorNotSupported, cudaGetLastError());
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, 0, &found));
  cr_assert(function != NULL && found == cudaDriverEntryPointSuccess);
  CUDA_OK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, 0, &found));
  cr_assert(found == cudaDriverEntryPointSymbolNotFound);
}
