/*
 * The instructions of a GPU whose time gpu_memory measures, each in a function, and how a kernel
 * ends itself. The tests compile the program as C++ with tests/gpu/virtual_cuda.cuh instead, whose
 * threads are those of the host.
 */
#ifndef BENCH_GPU_MEMORY_DEVICE_CUH
#define BENCH_GPU_MEMORY_DEVICE_CUH

#include <cstddef>
#include <cstdint>

#define LIMIT_NS 5000000000ull /* after which a kernel ends itself */
#define LOOK_INTERVAL 1024     /* polls or iterations per look at the time */

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define DEVICE static __device__ __forceinline__

/* 16 bytes that one instruction loads or stores. */
struct alignas(16) words128 {
  uint64_t low, high;
};

DEVICE uint64_t load_acquire(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
DEVICE void store_release(uint64_t *word, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}
DEVICE uint64_t load_relaxed(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
DEVICE void store_relaxed(uint64_t *word, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

DEVICE words128 load_relaxed128(const words128 *words) {
  words128 value;
  asm volatile(
      "{\n\t.reg .b128 both;\n\t"
      "ld.relaxed.sys.global.b128 both, [%2];\n\t"
      "mov.b128 {%0, %1}, both;\n\t}"
      : "=l"(value.low), "=l"(value.high)
      : "l"(words)
      : "memory");
  return value;
}
DEVICE void store_relaxed128(words128 *words, words128 value) {
  asm volatile(
      "{\n\t.reg .b128 both;\n\t"
      "mov.b128 both, {%1, %2};\n\t"
      "st.relaxed.sys.global.b128 [%0], both;\n\t}"
      :
      : "l"(words), "l"(value.low), "l"(value.high)
      : "memory");
}

DEVICE void fence_system(void) {
  asm volatile("fence.acq_rel.sys;" : : : "memory");
}
DEVICE void fence_device(void) {
  asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

DEVICE uint64_t now_ns(void) {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) : : "memory");
  return ns;
}
DEVICE uint32_t multiprocessor(void) {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

/* Between two polls. */
DEVICE void pause_poll(void) {
}

/* Queues a kernel on the default stream. */
template <class... parameters_t, class... arguments_t>
static void launch(void (*kernel)(parameters_t...), uint32_t blocks, uint32_t threads,
                   arguments_t... arguments) {
  kernel<<<blocks, threads>>>(arguments...);
}

#elif !defined TESTS_GPU_VIRTUAL_CUDA_CUH
#error "nvcc compiles this"
#endif

/* What a kernel that measures leaves. */
struct outcome {
  uint64_t ns;
  uint32_t expired;            /* the kernel has ended itself */
  uint32_t wrong;              /* values that were not as they should be */
  uint32_t multiprocessors[2]; /* where the two blocks of a pair ran */
};

/* Whether a loop must end, which it asks in each iteration. */
struct deadline {
  uint64_t at_ns;
  uint32_t turns;
};

DEVICE deadline deadline_begin(void) {
  return {now_ns() + LIMIT_NS, 0};
}

DEVICE bool deadline_over(deadline *limit, outcome *result) {
  if (++limit->turns % LOOK_INTERVAL != 0 || now_ns() < limit->at_ns) return false;
  result->expired = 1;
  return true;
}

#endif
