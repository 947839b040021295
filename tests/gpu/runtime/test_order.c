/*
 * The order of streams and events. Every operation is delayed at random, so an order that is not
 * kept shows.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "gpu/runtime/checks.h"

#define BYTES ((size_t)1000)

static void set_delay(void) {
  cuda_setting("COLL_STANDIN_DELAY_US", "2000");
}

TestSuite(runtime_order, .timeout = 60, .init = set_delay);

Test(runtime_order, of_one_stream) {
  cudaStream_t stream;
  unsigned char *first = cuda_bytes(BYTES, 1), *second = cuda_bytes(BYTES, 2);
  CUDA_OK(cudaStreamCreate(&stream));
  for (int i = 0; i < 20; i++) {
    CUDA_OK(cudaMemcpyAsync(second, first, BYTES, cudaMemcpyDeviceToDevice, stream));
    CUDA_OK(cudaMemsetAsync(first, 0, BYTES, stream));
    CUDA_OK(cudaMemcpyAsync(first, second, BYTES, cudaMemcpyDeviceToDevice, stream));
  }
  CUDA_RETURNS(cudaErrorNotReady, cudaStreamQuery(stream));
  CUDA_RETURNS(cudaErrorNotReady, cudaGetLastError());
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaStreamQuery(stream));
  cr_assert(cuda_holds(first, BYTES, 1));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(first));
  CUDA_OK(cudaFree(second));
  cuda_expect_clean(1);
}

/* The legacy default stream waits for blocking ones and they for it. */
Test(runtime_order, of_default_streams) {
  cudaStream_t stream;
  unsigned char *first = cuda_bytes(BYTES, 1), *second = cuda_bytes(BYTES, 2);
  CUDA_OK(cudaStreamCreate(&stream));
  for (int i = 0; i < 10; i++) {
    cudaStream_t other = i % 2 == 0 ? stream : cudaStreamPerThread;
    CUDA_OK(cudaMemcpyAsync(second, first, BYTES, cudaMemcpyDeviceToDevice, other));
    CUDA_OK(cudaMemsetAsync(first, 0, BYTES, cudaStreamLegacy));
    CUDA_OK(cudaMemcpyAsync(first, second, BYTES, cudaMemcpyDeviceToDevice, other));
    CUDA_OK(cudaMemsetAsync(second, 0, BYTES, NULL));
  }
  cr_assert(cuda_holds(first, BYTES, 1)); /* copies in the legacy stream */
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(first));
  CUDA_OK(cudaFree(second));
  cuda_expect_clean(1);
}

Test(runtime_order, of_streams_of_two_devices_by_events) {
  cudaStream_t streams[2];
  cudaEvent_t events[2];
  unsigned char *memory[2];
  for (int i = 0; i < 2; i++) {
    CUDA_OK(cudaSetDevice(i));
    CUDA_OK(cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, -5));
    CUDA_OK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    memory[i] = cuda_bytes(BYTES, i);
  }
  CUDA_OK(cudaDeviceSynchronize());
  for (int i = 0; i < 10; i++) {
    int from = i % 2, to = 1 - from;
    CUDA_OK(cudaMemcpyPeerAsync(memory[to], to, memory[from], from, BYTES, streams[from]));
    CUDA_OK(cudaEventRecord(events[from], streams[from]));
    CUDA_OK(cudaSetDevice(to));
    CUDA_OK(cudaStreamWaitEvent(streams[to], events[from], 0));
    CUDA_OK(cudaMemsetAsync(memory[to] + BYTES / 2, 9, 1, streams[to]));
    CUDA_OK(cudaMemsetAsync(memory[to] + BYTES / 2, (int)(BYTES / 2) & 0xff, 1, streams[to]));
  }
  CUDA_OK(cudaStreamSynchronize(streams[0]));
  cr_assert(cuda_holds(memory[0], BYTES, 0));
  for (int i = 0; i < 2; i++) {
    CUDA_OK(cudaSetDevice(i));
    CUDA_OK(cudaStreamDestroy(streams[i]));
    CUDA_OK(cudaEventDestroy(events[i]));
    CUDA_OK(cudaFree(memory[i]));
  }
  cuda_expect_clean(2);
}

static void count(void *counter) {
  atomic_fetch_add((atomic_int *)counter, 1);
}

Test(runtime_order, of_events_and_host_functions) {
  cudaStream_t stream;
  cudaEvent_t start, end;
  atomic_int counter = 0;
  float ms = -1.0f;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_OK(cudaEventCreate(&start));
  CUDA_OK(cudaEventCreate(&end));
  CUDA_OK(cudaEventQuery(start)); /* never recorded */
  CUDA_OK(cudaEventRecord(start, stream));
  for (int i = 0; i < 5; i++) CUDA_OK(cudaLaunchHostFunc(stream, count, &counter));
  CUDA_OK(cudaEventRecord(end, stream));
  CUDA_OK(cudaEventSynchronize(end));
  cr_assert(atomic_load(&counter) == 5);
  CUDA_OK(cudaEventElapsedTime(&ms, start, end));
  cr_assert(ms >= 0.0f);
  CUDA_OK(cudaEventDestroy(start));
  CUDA_OK(cudaEventDestroy(end));
  CUDA_RETURNS(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, NULL, NULL));
  CUDA_OK(cudaStreamDestroy(stream));
  cuda_expect_clean(1);
}

/* A thread's own default stream is not another's. */
static void *use_own_stream(void *memory) {
  CUDA_OK(cudaMemsetAsync(memory, 5, BYTES, cudaStreamPerThread));
  CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
  return NULL;
}

Test(runtime_order, of_threads_with_streams_of_their_own) {
  pthread_t threads[3];
  unsigned char *memory[3];
  for (int i = 0; i < 3; i++) {
    memory[i] = cuda_bytes(BYTES, i);
    cr_assert(pthread_create(&threads[i], NULL, use_own_stream, memory[i]) == 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    CUDA_OK(cudaFree(memory[i]));
  }
  cuda_expect_clean(1);
}

Test(runtime_order, destroyed_streams_are_refused) {
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_RETURNS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
  CUDA_RETURNS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamPerThread));
  cr_assert(standin_misuses() == 1);
}
