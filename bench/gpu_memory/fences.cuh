/*
 * How long a fence takes in one thread: with nothing to wait for, behind a store of its own, and
 * while other warps of its block or all multiprocessors store as fast as they can.
 */
#ifndef BENCH_GPU_MEMORY_FENCES_CUH
#define BENCH_GPU_MEMORY_FENCES_CUH

#include "bench/gpu_memory/device.cuh"

#define LOAD_NS 50000 /* for which the others store before the clock starts */
#define STORES 16     /* of a thread between two looks at the word that ends it */
#define WARP 32

enum fence_load {
  LOAD_NONE,
  LOAD_OWN,  /* a store of the same thread before each fence */
  LOAD_BLOCK /* other warps of the block store, and those of other blocks if there are any */
};

struct fence_call {
  uint64_t *stop;  /* zero; ends the threads that store */
  uint64_t *words; /* where the thread with the fences stores */
  uint4 *stored;   /* where the others do */
  size_t stored_vectors;
  uint32_t fences;
};

template <bool IS_SYSTEM>
DEVICE void fence(void) {
  if (IS_SYSTEM) fence_system();
  if (!IS_SYSTEM) fence_device();
}

DEVICE void store_until_stopped(const fence_call *call, outcome *result) {
  deadline limit = deadline_begin();
  size_t threads = (size_t)gridDim.x * blockDim.x;
  size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  size_t at = first;
  while (load_relaxed(call->stop) == 0 && !deadline_over(&limit, result)) {
    for (int i = 0; i < STORES; i++) {
      call->stored[at] = {(uint32_t)at, 1, 2, 3};
      at += threads;
      if (at >= call->stored_vectors) at = first;
    }
    pause_poll();
  }
}

template <bool IS_SYSTEM, fence_load LOAD>
DEVICE void time_fences(const fence_call *call, outcome *result) {
  deadline limit = deadline_begin();
  uint64_t loaded_ns = now_ns() + LOAD_NS;
  while (LOAD == LOAD_BLOCK && now_ns() < loaded_ns) pause_poll();
  uint64_t begin_ns = now_ns();
  for (uint32_t i = 0; i < call->fences && !deadline_over(&limit, result); i++) {
    if (LOAD != LOAD_NONE) store_relaxed(&call->words[i % WARP], i);
    fence<IS_SYSTEM>();
  }
  result->ns = now_ns() - begin_ns;
  store_relaxed(call->stop, 1);
}

/* Thread 0 of block 0 measures. The rest of its warp does nothing. */
template <bool IS_SYSTEM, fence_load LOAD>
__global__ void measure_fences(fence_call call, outcome *result) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    time_fences<IS_SYSTEM, LOAD>(&call, result);
  } else if (LOAD == LOAD_BLOCK && (blockIdx.x > 0 || threadIdx.x >= WARP)) {
    store_until_stopped(&call, result);
  }
}

#endif
