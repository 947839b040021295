/*
 * What differs between a CUDA device and the virtual GPU, so that the kernel is one source for nvcc
 * and for the host's C compiler. The threads of the virtual GPU are threads of the host, one or a
 * few per block. Its loads and stores assert the alignment that a device requires. A kernel is
 * written in what C11 and C++17 have in common.
 */
#ifndef DEVICE_CUDA_GPU_H
#define DEVICE_CUDA_GPU_H

#ifndef __cplusplus
#include <stdbool.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GPU_THREADS_MAX 384 /* of a block; with more, sums of narrow floats spill registers */
#define GPU_LINE 128        /* bytes of a cache line */
#define GPU_VECTOR_BYTES 16 /* widest load and store of a thread */
#define GPU_ABORT_INTERVAL \
  64 /* polls of a flag per look at the abort word, which is in host memory */

#ifdef __CUDACC__

#define GPU_FUNCTION static __device__ __forceinline__
#define GPU_LONG_FUNCTION static __device__ __noinline__
#define GPU_KERNEL extern "C" __global__ void __launch_bounds__(GPU_THREADS_MAX)
#define GPU_ARGUMENT const __grid_constant__
#define GPU_SHARED(type_t, name, count) __shared__ type_t name[count]

typedef uint4 gpu_vector_t;

GPU_FUNCTION uint32_t gpu_block(void) {
  return blockIdx.x;
}
GPU_FUNCTION uint32_t gpu_blocks(void) {
  return gridDim.x;
}
GPU_FUNCTION uint32_t gpu_thread(void) {
  return threadIdx.x;
}
GPU_FUNCTION uint32_t gpu_threads(void) {
  return blockDim.x;
}

/* Of all threads of the block. Accesses before it happen before those after it. */
GPU_FUNCTION void gpu_barrier(void) {
  __syncthreads();
}

/* The same; returns whether `value` is true in all threads. */
GPU_FUNCTION bool gpu_barrier_all(bool value) {
  return __syncthreads_and(value) != 0;
}

/* Flags are in memory that several devices access: system scope. */
GPU_FUNCTION uint64_t gpu_load_acquire(const uint64_t *flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}
GPU_FUNCTION void gpu_store_release(uint64_t *flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(flag), "l"(value) : "memory");
}
GPU_FUNCTION uint32_t gpu_load_relaxed(const uint32_t *word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
GPU_FUNCTION void gpu_store_relaxed(uint32_t *word, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

/* Returns the value before. Acquire and release among the blocks of the device. */
GPU_FUNCTION uint32_t gpu_increment(uint32_t *word) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(word)
               : "memory");
  return before;
}

/* Between two polls. */
GPU_FUNCTION void gpu_pause(void) {
}

/* Before an access that other blocks may see: where the virtual GPU delays a block at random. */
GPU_FUNCTION void gpu_delay(void) {
}

#define GPU_LOAD(type_t, from) (*(const type_t *)(from))
#define GPU_STORE(type_t, to, value) (*(type_t *)(to) = (value))

#else

#include <assert.h>
#include <pthread.h>

#define GPU_FUNCTION static inline
#define GPU_LONG_FUNCTION static inline
#define GPU_KERNEL void
#define GPU_ARGUMENT const
#define GPU_SHARED(type_t, name, count) type_t *name = (type_t *)gpu_virtual.shared
typedef struct gpu_vector {
  _Alignas(GPU_VECTOR_BYTES) uint32_t words[4];
} gpu_vector_t;

/* A thread of a block. */
typedef struct gpu_virtual_thread {
  uint32_t block, blocks, thread, threads;
  void *shared;               /* memory of the block, GPU_VIRTUAL_SHARED bytes */
  pthread_barrier_t *barrier; /* of the threads of the block */
  uint32_t *all;              /* of the block: 1 until gpu_barrier_all has seen a false value */
  uint64_t random;
  /* called where gpu_delay and gpu_pause are; may be NULL */
  void (*delay)(struct gpu_virtual_thread *thread, bool is_poll);
} gpu_virtual_thread_t;

#define GPU_VIRTUAL_SHARED 1024

extern _Thread_local gpu_virtual_thread_t gpu_virtual;

GPU_FUNCTION uint32_t gpu_block(void) {
  return gpu_virtual.block;
}
GPU_FUNCTION uint32_t gpu_blocks(void) {
  return gpu_virtual.blocks;
}
GPU_FUNCTION uint32_t gpu_thread(void) {
  return gpu_virtual.thread;
}
GPU_FUNCTION uint32_t gpu_threads(void) {
  return gpu_virtual.threads;
}
GPU_FUNCTION void gpu_barrier(void) {
  if (gpu_virtual.threads > 1) pthread_barrier_wait(gpu_virtual.barrier);
}

/* A block ends after a false value, so the word is not set again. */
GPU_FUNCTION bool gpu_barrier_all(bool value) {
  if (gpu_virtual.threads == 1) return value;
  if (!value) __atomic_store_n(gpu_virtual.all, 0, __ATOMIC_RELAXED);
  gpu_barrier();
  bool all = __atomic_load_n(gpu_virtual.all, __ATOMIC_RELAXED) != 0;
  gpu_barrier();
  return all;
}
GPU_FUNCTION uint64_t gpu_load_acquire(const uint64_t *flag) {
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}
GPU_FUNCTION void gpu_store_release(uint64_t *flag, uint64_t value) {
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}
GPU_FUNCTION uint32_t gpu_load_relaxed(const uint32_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
GPU_FUNCTION void gpu_store_relaxed(uint32_t *word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
GPU_FUNCTION uint32_t gpu_increment(uint32_t *word) {
  return __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}
GPU_FUNCTION void gpu_pause(void) {
  if (gpu_virtual.delay != NULL) gpu_virtual.delay(&gpu_virtual, true);
}
GPU_FUNCTION void gpu_delay(void) {
  if (gpu_virtual.delay != NULL) gpu_virtual.delay(&gpu_virtual, false);
}

/* Of an aligned value of that type. Copies bytes, as the type may not be that of the object. */
GPU_FUNCTION void gpu_move(void *to, const void *from, const void *checked, size_t bytes) {
  assert((uintptr_t)checked % bytes == 0);
  (void)checked;
  memcpy(to, from, bytes);
}
#define GPU_LOAD(type_t, from)                            \
  (__extension__({                                        \
    type_t gpu_loaded;                                    \
    gpu_move(&gpu_loaded, from, from, sizeof gpu_loaded); \
    gpu_loaded;                                           \
  }))
#define GPU_STORE(type_t, to, value)                  \
  (__extension__({                                    \
    type_t gpu_stored = (value);                      \
    gpu_move(to, &gpu_stored, to, sizeof gpu_stored); \
  }))

#endif

/* Distributes i = 0 … count - 1 over the threads of the block. */
#define GPU_EACH(i, count) for (size_t i = gpu_thread(); i < (count); i += gpu_threads())

#endif
