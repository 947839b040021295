/*
 * What bench/gpu_memory.cu needs of CUDA, on threads of the host: the compiler is told to include
 * this file first, and compiles the program as C++. A launch runs all threads of all blocks at the
 * same time, and returns when they have ended. Time is virtual: it goes on by 1 us with each look
 * at it, so no time limit passes on a slow machine. The variable VIRTUAL_CUDA breaks something:
 *
 *   lost    flags do not arrive, and time flies
 *   torn    of 16 bytes the half with the flag is stored first
 *   short   the last block of a grid of two does not run
 *   none    there is no GPU
 */
#ifndef TESTS_GPU_VIRTUAL_CUDA_CUH
#define TESTS_GPU_VIRTUAL_CUDA_CUH

#include <sched.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define DEVICE static inline
#define __global__ static

struct uint4 {
  uint32_t x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
struct alignas(16) words128 {
  uint64_t low, high;
};
struct place {
  uint32_t x;
};

static thread_local place threadIdx, blockIdx, blockDim, gridDim;

static bool breaks(const char *what) {
  static const char *broken = getenv("VIRTUAL_CUDA");
  return broken != nullptr && strcmp(broken, what) == 0;
}

/* ---- instructions ----------------------------------------------------------------------------*/

DEVICE uint64_t load_acquire(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
DEVICE void store_release(uint64_t *word, uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
DEVICE uint64_t load_relaxed(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
DEVICE void store_relaxed(uint64_t *word, uint64_t value) {
  if (!breaks("lost")) __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
/* The upper half has the flag. */
DEVICE words128 load_relaxed128(const words128 *words) {
  uint64_t high = load_acquire(&words->high);
  return {load_relaxed(&words->low), high};
}
DEVICE void store_relaxed128(words128 *words, words128 value) {
  if (breaks("torn")) {
    store_release(&words->high, value.high);
    for (int i = 0; i < 1000; i++) sched_yield();
  }
  store_relaxed(&words->low, value.low);
  store_release(&words->high, value.high);
}
DEVICE void fence_system(void) {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
}
DEVICE void fence_device(void) {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
}
DEVICE uint64_t now_ns(void) {
  static uint64_t ns;
  return __atomic_add_fetch(&ns, breaks("lost") ? 6000000000ull : 1000, __ATOMIC_RELAXED);
}
DEVICE uint32_t multiprocessor(void) {
  return blockIdx.x;
}
DEVICE void pause_poll(void) {
  sched_yield();
}
DEVICE void atomicAdd(uint32_t *word, uint32_t value) {
  __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

template <class... parameters_t, class... arguments_t>
static void launch(void (*kernel)(parameters_t...), uint32_t blocks, uint32_t threads,
                   arguments_t... arguments) {
  std::vector<std::thread> running;
  uint32_t last = blocks == 2 && breaks("short") ? blocks - 1 : blocks;
  for (uint32_t i = 0; i < last * threads; i++) {
    running.emplace_back([=] {
      threadIdx.x = i % threads, blockIdx.x = i / threads;
      blockDim.x = threads, gridDim.x = blocks;
      kernel(arguments...);
    });
  }
  for (std::thread &each : running) each.join();
}

/* ---- the runtime -----------------------------------------------------------------------------*/

typedef int cudaError_t;
typedef uint64_t *cudaEvent_t;
enum { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100 };
enum { cudaMemcpyDeviceToHost };

struct cudaDeviceProp {
  char name[16];
  int multiProcessorCount;
};

static inline const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "out of memory";
}
static inline cudaError_t cudaSetDevice(int) {
  return breaks("none") ? cudaErrorNoDevice : cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {"Virtual", 3};
  return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **memory, size_t bytes) {
  *memory = aligned_alloc(128, (bytes + 127) / 128 * 128);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *memory) {
  free(memory);
  return cudaSuccess;
}
static inline cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
  memset(memory, value, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int) {
  memcpy(to, from, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceSynchronize(void) {
  return cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = new uint64_t(0);
  return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, int) {
  *event = now_ns();
  return cudaSuccess;
}
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = (float)(*to - *from) * 1e-6f;
  return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

#endif
