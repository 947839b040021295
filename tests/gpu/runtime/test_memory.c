/*
 * Allocations, kinds of memory, and memory of other processes.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/runtime/checks.h"
#include "harness/harness.h"

TestSuite(runtime_memory, .timeout = 60);

static void expect(const void *memory, enum cudaMemoryType type, int device, int on_device,
                   int on_host) {
  struct cudaPointerAttributes attributes;
  CUDA_OK(cudaPointerGetAttributes(&attributes, memory));
  cr_assert(attributes.type == type && attributes.device == device);
  cr_assert(attributes.devicePointer == (on_device ? memory : NULL));
  cr_assert(attributes.hostPointer == (on_host ? memory : NULL));
}

Test(runtime_memory, has_kinds) {
  char plain[64], *registered = malloc(4096);
  void *device, *pinned, *managed, *mapped;
  CUDA_OK(cudaSetDevice(1));
  CUDA_OK(cudaMalloc(&device, 64));
  CUDA_OK(cudaHostAlloc(&pinned, 64, cudaHostAllocPortable | cudaHostAllocMapped));
  CUDA_OK(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
  CUDA_OK(cudaHostRegister(registered, 4096, cudaHostRegisterMapped));
  CUDA_RETURNS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(registered, 64, 0));
  expect(plain, cudaMemoryTypeUnregistered, -2, 0, 1);
  expect(device, cudaMemoryTypeDevice, 1, 1, 0);
  expect(pinned, cudaMemoryTypeHost, 1, 1, 1);
  expect(managed, cudaMemoryTypeManaged, 1, 1, 1);
  expect(registered + 64, cudaMemoryTypeHost, 1, 1, 1);
  CUDA_OK(cudaHostGetDevicePointer(&mapped, pinned, 0));
  cr_assert(mapped == pinned);
  CUDA_RETURNS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&mapped, plain, 0));
  CUDA_OK(cudaHostUnregister(registered));
  CUDA_OK(cudaFree(device));
  CUDA_OK(cudaFree(managed));
  CUDA_OK(cudaFreeHost(pinned));
  free(registered);
  cuda_expect_clean(1);
}

Test(runtime_memory, of_no_bytes) {
  void *memory = &memory;
  size_t before, after, total;
  CUDA_OK(cudaMalloc(&memory, 0));
  cr_assert(memory == NULL);
  CUDA_OK(cudaFree(NULL));
  CUDA_OK(cudaFreeHost(NULL));
  CUDA_OK(cudaMemGetInfo(&before, &total));
  CUDA_OK(cudaMalloc(&memory, 100000));
  CUDA_OK(cudaMemGetInfo(&after, &total));
  cr_assert(before - after >= 100000 && total == (size_t)16 << 30);
  CUDA_OK(cudaFree(memory));
  cuda_expect_clean(1);
}

Test(runtime_memory, freed_as_another_kind_is_refused) {
  void *device, *pinned;
  CUDA_OK(cudaMalloc(&device, 64));
  CUDA_OK(cudaMallocHost(&pinned, 64));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaFree(pinned));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaFreeHost(device));
  CUDA_RETURNS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pinned));
  cr_assert(standin_misuses() == 3);
}

/* It is freed behind the work of its stream. */
Test(runtime_memory, in_the_order_of_a_stream) {
  cudaStream_t stream;
  char host[1000], *memory;
  cuda_setting("COLL_STANDIN_DELAY_US", "2000");
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_OK(cudaMallocAsync((void **)&memory, sizeof host, stream));
  CUDA_OK(cudaMemsetAsync(memory, 0x42, sizeof host, stream));
  CUDA_OK(cudaMemcpyAsync(host, memory, sizeof host, cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaFreeAsync(memory, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  cr_assert(host[0] == 0x42 && host[sizeof host - 1] == 0x42);
  CUDA_RETURNS(cudaErrorInvalidValue, cudaFreeAsync(memory, stream));
  CUDA_OK(cudaStreamDestroy(stream));
  cuda_expect_clean(1);
}

/* ---- of another process ----------------------------------------------------------------------*/

#define SHARED_BYTES ((size_t)100000)

#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!(condition)) return harness_fail("line %d: %s", __LINE__, #condition); \
  } while (0)

/* Rank 0 lends its memory, rank 1 reads it and writes into it, from another GPU. */
static int share(int rank, int size, void *context) {
  cudaIpcMemHandle_t *handle = harness_board();
  unsigned char *memory, byte = 0;
  (void)size, (void)context;
  REQUIRE(cudaSetDevice(rank) == cudaSuccess);
  if (rank == 0) {
    REQUIRE(cudaMalloc((void **)&memory, SHARED_BYTES) == cudaSuccess);
    REQUIRE(cudaMemset(memory, 7, SHARED_BYTES) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaIpcGetMemHandle(handle, memory) == cudaSuccess);
  }
  harness_barrier();
  if (rank == 1) {
    REQUIRE(cudaIpcOpenMemHandle((void **)&memory, *handle, cudaIpcMemLazyEnablePeerAccess) ==
            cudaSuccess);
    REQUIRE(cudaMemcpy(&byte, memory + SHARED_BYTES - 1, 1, cudaMemcpyDefault) == cudaSuccess);
    REQUIRE(byte == 7);
    REQUIRE(cudaMemset(memory, 9, SHARED_BYTES) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaIpcCloseMemHandle(memory) == cudaSuccess);
  }
  harness_barrier();
  if (rank == 0) {
    REQUIRE(cudaMemcpy(&byte, memory + 5, 1, cudaMemcpyDeviceToHost) == cudaSuccess && byte == 9);
    REQUIRE(cudaIpcOpenMemHandle((void **)&memory, *handle, 1) == cudaErrorDeviceUninitialized);
    REQUIRE(cudaFree(memory) == cudaSuccess);
  }
  char text[256];
  REQUIRE(standin_leaks(text, sizeof text) <= 2 && standin_misuses() == 0);
  return 0;
}

Test(runtime_memory, of_another_process) {
  harness_result_t run;
  cr_assert(harness_run(2, 20000, share, NULL, &run), "%s", run.text);
}
