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

#define GPU_THREADS_MAX 384  /* of a block */
#define GPU_REGISTERS_MAX 96 /* of a thread */
#define GPU_LINE 128         /* bytes of a cache line */
#define GPU_VECTOR_BYTES 16  /* widest load and store of a thread */
#define GPU_LL_BYTES 4       /* of data in a flagged word (ll.h) */
#define GPU_LL128_BYTES 120  /* of data in a flagged line (ll128.h) */
#define GPU_LINE_WORDS 16    /* of 8 bytes, of which the last is the line's flag */
#define GPU_ABORT_INTERVAL \
  64 /* polls of a flag per look at the abort word, which is in host memory */
#define GPU_LONG_INTERVAL 1024 /* polls per look at the peer's calls; a multiple of the other */

#ifdef __CUDACC__

#define GPU_FUNCTION static __device__ __forceinline__
#define GPU_LONG_FUNCTION static __device__ __noinline__
/* More threads than a kernel is launched with: so many share a multiprocessor's 65,536 registers,
 * which are given out to four warps at a time. */
#define GPU_KERNEL \
  extern "C" __global__ void __launch_bounds__(65536 / GPU_REGISTERS_MAX / 128 * 128, 1)
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

/* A value that is the same in all threads of a warp. The compiler does not know of most that they
 * are, and keeps registers for threads that go other ways. */
GPU_FUNCTION bool gpu_uniform(bool value) {
  return __any_sync(0xffffffffu, value) != 0;
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

GPU_FUNCTION void gpu_store_release32(uint32_t *word, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}
GPU_FUNCTION uint64_t gpu_load_relaxed64(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
GPU_FUNCTION void gpu_store_relaxed64(uint64_t *word, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
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

/*
 * Flagged lines. GPU_LINE_THREADS threads of a warp hold a line, two words each, and take the same
 * way. Such a store of 16 bytes per thread is one write of the line in memory of this GPU and over
 * NVLink, as is a load one read, so whoever loads the flag has loaded the data with it. Over PCIe
 * that is not so.
 */
#define GPU_LINE_THREADS 8
#define GPU_LINE_HELD (GPU_LINE_WORDS / GPU_LINE_THREADS)

/* What the thread holds of a line. */
typedef struct gpu_line {
  uint64_t words[GPU_LINE_HELD];
} gpu_line_t;

/* Which word of the line words[held] is. */
GPU_FUNCTION uint32_t gpu_line_word(uint32_t held) {
  return threadIdx.x % GPU_LINE_THREADS * GPU_LINE_HELD + held;
}

/* The threads that hold the same line as this one, in the mask of the warp. */
GPU_FUNCTION uint32_t gpu_line_mask(void) {
  return ((1u << GPU_LINE_THREADS) - 1)
         << (threadIdx.x % warpSize / GPU_LINE_THREADS * GPU_LINE_THREADS);
}

/* Whether `value` is true in all threads that hold the line. */
GPU_FUNCTION bool gpu_line_all(bool value) {
  return __all_sync(gpu_line_mask(), value) != 0;
}

GPU_FUNCTION void gpu_line_store(uint64_t *to, const gpu_line_t *line) {
  __syncwarp(gpu_line_mask());
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(to + gpu_line_word(0)), "l"(line->words[0]), "l"(line->words[1])
               : "memory");
}

/* Returns the flag, in all threads that hold the line. */
GPU_FUNCTION uint64_t gpu_line_load(const uint64_t *from, gpu_line_t *line) {
  __syncwarp(gpu_line_mask());
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(line->words[0]), "=l"(line->words[1])
               : "l"(from + gpu_line_word(0))
               : "memory");
  return __shfl_sync(gpu_line_mask(), line->words[1], GPU_LINE_THREADS - 1, GPU_LINE_THREADS);
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
  uint32_t *all;              /* of the block: 0 while gpu_barrier_all has seen a false value */
  uint64_t random;
  /* called where gpu_delay and gpu_pause are; may be NULL */
  void (*delay)(struct gpu_virtual_thread *thread, bool is_poll);
} gpu_virtual_thread_t;

#define GPU_VIRTUAL_SHARED 8192

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

/* The word is 1 between two calls. */
GPU_FUNCTION bool gpu_barrier_all(bool value) {
  if (gpu_virtual.threads == 1) return value;
  if (!value) __atomic_store_n(gpu_virtual.all, 0, __ATOMIC_RELAXED);
  gpu_barrier();
  bool all = __atomic_load_n(gpu_virtual.all, __ATOMIC_RELAXED) != 0;
  gpu_barrier();
  if (all) return true;
  if (gpu_virtual.thread == 0) __atomic_store_n(gpu_virtual.all, 1, __ATOMIC_RELAXED);
  gpu_barrier();
  return false;
}
GPU_FUNCTION bool gpu_uniform(bool value) {
  return value;
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
GPU_FUNCTION void gpu_store_release32(uint32_t *word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
GPU_FUNCTION uint64_t gpu_load_relaxed64(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
GPU_FUNCTION void gpu_store_relaxed64(uint64_t *word, uint64_t value) {
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

/*
 * Flagged lines. A thread holds a line alone. It stores the flag behind the data and loads it
 * before them, so whoever loads the flag loads the data with it. That holds between processes too,
 * which share no lock.
 */
#define GPU_LINE_THREADS 1
#define GPU_LINE_HELD GPU_LINE_WORDS

typedef struct gpu_line {
  uint64_t words[GPU_LINE_HELD];
} gpu_line_t;

GPU_FUNCTION uint32_t gpu_line_word(uint32_t held) {
  return held;
}
GPU_FUNCTION bool gpu_line_all(bool value) {
  return value;
}
GPU_FUNCTION void gpu_line_store(uint64_t *to, const gpu_line_t *line) {
  assert((uintptr_t)to % GPU_LINE == 0);
  for (uint32_t i = 0; i < GPU_LINE_WORDS - 1; i++) gpu_store_relaxed64(&to[i], line->words[i]);
  gpu_delay();
  gpu_store_release(&to[GPU_LINE_WORDS - 1], line->words[GPU_LINE_WORDS - 1]);
}
GPU_FUNCTION uint64_t gpu_line_load(const uint64_t *from, gpu_line_t *line) {
  assert((uintptr_t)from % GPU_LINE == 0);
  line->words[GPU_LINE_WORDS - 1] = gpu_load_acquire(&from[GPU_LINE_WORDS - 1]);
  for (uint32_t i = 0; i < GPU_LINE_WORDS - 1; i++) {
    line->words[i] = gpu_load_relaxed64(&from[i]);
  }
  return line->words[GPU_LINE_WORDS - 1];
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

/* a / b. A GPU divides words of 32 bits several times as fast. */
GPU_FUNCTION size_t gpu_quotient(size_t a, size_t b) {
  return (a | b) >> 32 == 0 ? (uint32_t)a / (uint32_t)b : a / b;
}

/* Distributes i = 0 … count - 1 over the threads of the block. */
#define GPU_EACH(i, count) for (size_t i = gpu_thread(); i < (count); i += gpu_threads())

/* The same for lines, over the groups of threads that hold one. */
#define GPU_EACH_LINE(i, count)                                 \
  for (size_t i = gpu_thread() / GPU_LINE_THREADS; i < (count); \
       i += gpu_threads() / GPU_LINE_THREADS)

#endif
