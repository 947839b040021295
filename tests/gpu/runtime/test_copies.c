/*
 * Copies in all directions, and memset.
 */
#include "gpu/runtime/checks.h"

#define BYTES ((size_t)10000)

TestSuite(runtime_copies, .timeout = 60);

static void fill(unsigned char *host, int first) {
  for (size_t i = 0; i < BYTES; i++) host[i] = (unsigned char)(first + (int)i);
}

Test(runtime_copies, between_all_kinds_of_memory) {
  unsigned char *ends[4];
  ends[0] = malloc(BYTES);
  CUDA_OK(cudaMallocHost((void **)&ends[1], BYTES));
  CUDA_OK(cudaMallocManaged((void **)&ends[2], BYTES, cudaMemAttachGlobal));
  CUDA_OK(cudaMalloc((void **)&ends[3], BYTES));
  for (int from = 0; from < 4; from++) {
    for (int to = 0; to < 4; to++) {
      unsigned char host[BYTES];
      fill(host, 4 * from + to);
      CUDA_OK(cudaMemcpy(ends[from], host, BYTES, cudaMemcpyDefault));
      if (from != to) CUDA_OK(cudaMemcpy(ends[to], ends[from], BYTES, cudaMemcpyDefault));
      cr_assert(cuda_holds(ends[to], BYTES, 4 * from + to));
    }
  }
  free(ends[0]);
  CUDA_OK(cudaFreeHost(ends[1]));
  CUDA_OK(cudaFree(ends[2]));
  CUDA_OK(cudaFree(ends[3]));
  cuda_expect_clean(1);
}

Test(runtime_copies, check_the_direction) {
  unsigned char *device = cuda_bytes(64, 1), host[64], *pinned;
  CUDA_OK(cudaMallocHost((void **)&pinned, 64));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemcpy(device, host, 64, cudaMemcpyDeviceToHost));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemcpy(host, device, 64, cudaMemcpyHostToDevice));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemcpy(host, device, 64, cudaMemcpyDeviceToDevice));
  CUDA_RETURNS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(host, device, 64, 9));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemcpy(host, device, 65, cudaMemcpyDeviceToHost));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemset(host, 0, 64));
  CUDA_OK(cudaMemcpy(host, device, 64, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaMemcpy(pinned, device, 64, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaMemcpy(device, NULL, 0, cudaMemcpyHostToDevice));
  CUDA_OK(cudaFree(device));
  CUDA_OK(cudaFreeHost(pinned));
  cuda_expect_clean(1);
}

Test(runtime_copies, between_devices_need_no_access) {
  unsigned char *first = cuda_bytes(BYTES, 1), *second;
  CUDA_OK(cudaSetDevice(1));
  second = cuda_bytes(BYTES, 2);
  CUDA_OK(cudaMemcpy(second, first, BYTES, cudaMemcpyDeviceToDevice));
  cr_assert(cuda_holds(second, BYTES, 1));
  CUDA_OK(cudaMemset(second, 0, BYTES));
  CUDA_OK(cudaMemcpyPeer(second, 1, first, 0, BYTES));
  cr_assert(cuda_holds(second, BYTES, 1));
  CUDA_RETURNS(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(second, 1, first, 2, BYTES, NULL));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaMemcpyPeerAsync(second, 0, first, 0, BYTES, NULL));
  CUDA_OK(cudaFree(first));
  CUDA_OK(cudaFree(second));
  cuda_expect_clean(2);
}

/* Plain memory is read before the call returns. */
Test(runtime_copies, that_are_asynchronous_stage_plain_memory) {
  unsigned char host[BYTES], *device, *pinned;
  cudaStream_t stream;
  cuda_setting("COLL_STANDIN_DELAY_US", "3000");
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaMalloc((void **)&device, BYTES));
  CUDA_OK(cudaMallocHost((void **)&pinned, BYTES));
  fill(host, 5);
  CUDA_OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream));
  memset(host, 0, BYTES);
  CUDA_OK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
  cr_assert(cuda_holds(host, BYTES, 5) && cuda_holds(pinned, BYTES, 5));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(device));
  CUDA_OK(cudaFreeHost(pinned));
  cuda_expect_clean(1);
}

Test(runtime_copies, memset_of_all_kinds) {
  unsigned char *memory[3], host[64];
  CUDA_OK(cudaMalloc((void **)&memory[0], 64));
  CUDA_OK(cudaMallocHost((void **)&memory[1], 64));
  CUDA_OK(cudaMallocManaged((void **)&memory[2], 64, cudaMemAttachGlobal));
  for (int i = 0; i < 3; i++) {
    CUDA_OK(cudaMemset(memory[i], 0x41 + i, 64));
    CUDA_OK(cudaMemcpy(host, memory[i], 64, cudaMemcpyDefault));
    for (int j = 0; j < 64; j++) cr_assert(host[j] == 0x41 + i);
  }
  CUDA_OK(cudaFree(memory[0]));
  CUDA_OK(cudaFreeHost(memory[1]));
  CUDA_OK(cudaFree(memory[2]));
  cuda_expect_clean(1);
}
