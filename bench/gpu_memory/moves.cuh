/*
 * Copies and reductions by the threads of a grid, 16 bytes a load, UNROLL loads of a thread under
 * way at a time.
 */
#ifndef BENCH_GPU_MEMORY_MOVES_CUH
#define BENCH_GPU_MEMORY_MOVES_CUH

#include "bench/gpu_memory/device.cuh"

struct buffers {
  float4 *to;
  const float4 *first, *second; /* a copy is of the first alone */
  size_t vectors;
};

DEVICE float4 sum(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

template <bool IS_REDUCTION, int UNROLL>
DEVICE void move_some(const buffers *where, size_t at, size_t stride) {
  float4 first[UNROLL], second[UNROLL] = {};
#pragma unroll
  for (int i = 0; i < UNROLL; i++) first[i] = where->first[at + i * stride];
#pragma unroll
  for (int i = 0; i < UNROLL; i++) {
    if constexpr (IS_REDUCTION) second[i] = where->second[at + i * stride];
  }
#pragma unroll
  for (int i = 0; i < UNROLL; i++) {
    if constexpr (IS_REDUCTION) first[i] = sum(first[i], second[i]);
    where->to[at + i * stride] = first[i];
  }
}

template <bool IS_REDUCTION, int UNROLL>
__global__ void move_all(buffers where, outcome *result) {
  deadline limit = deadline_begin();
  size_t stride = (size_t)gridDim.x * blockDim.x;
  size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; at + (UNROLL - 1) * stride < where.vectors; at += UNROLL * stride) {
    if (deadline_over(&limit, result)) return;
    move_some<IS_REDUCTION, UNROLL>(&where, at, stride);
  }
  for (; at < where.vectors; at += stride) move_some<IS_REDUCTION, 1>(&where, at, stride);
}

/* Small integers, whose sums have no rounding, and which differ from those nearby. */
DEVICE float number_at(size_t vector, int place) {
  return (float)((vector * 4 + place) % 8191 + 1);
}

__global__ void fill(float4 *to, size_t vectors, float factor, outcome *result) {
  deadline limit = deadline_begin();
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    if (deadline_over(&limit, result)) return;
    to[i] = {factor * number_at(i, 0), factor * number_at(i, 1), factor * number_at(i, 2),
             factor * number_at(i, 3)};
  }
}

/* Counts the vectors from `first` on that are not factor times what fill has with 1. */
__global__ void check(const float4 *from, size_t first, size_t vectors, float factor,
                      outcome *result) {
  deadline limit = deadline_begin();
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    if (deadline_over(&limit, result)) return;
    float4 found = from[first + i];
    if (found.x != factor * number_at(first + i, 0) ||
        found.y != factor * number_at(first + i, 1) ||
        found.z != factor * number_at(first + i, 2) ||
        found.w != factor * number_at(first + i, 3)) {
      atomicAdd(&result->wrong, 1);
    }
  }
}

#endif
