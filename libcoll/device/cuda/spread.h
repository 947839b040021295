/*
 * Copies and reductions with several destinations, so that what they read is loaded from memory
 * once: a copy stores every vector to all of them. A reduction works in tiles, which are stored to
 * the first destination and copied from there while they are in the caches of the device.
 */
#ifndef DEVICE_CUDA_SPREAD_H
#define DEVICE_CUDA_SPREAD_H

#include "device/cuda/compute.h"
#include "device/cuda/range.h"

#define GPU_SPREAD_UNROLLED 4             /* loads of a thread before its first store */
#define GPU_TILE_BYTES ((size_t)48 << 10) /* of a reduction: a few vectors per thread */

GPU_FUNCTION void gpu_spread_one(const char *const dsts[], int count, size_t at,
                                 gpu_vector_t vector) {
  for (int i = 0; i < count; i++) gpu_vector_store((char *)(uintptr_t)dsts[i] + at, vector);
}

/* `vectors` from byte `start` of all on. */
GPU_FUNCTION void gpu_spread_vectors(const char *const dsts[], int count, const char *src,
                                     size_t start, size_t vectors) {
  size_t step = gpu_threads(), i = gpu_thread();
  for (; i + (GPU_SPREAD_UNROLLED - 1) * step < vectors; i += GPU_SPREAD_UNROLLED * step) {
    gpu_vector_t loaded[GPU_SPREAD_UNROLLED];
    for (int k = 0; k < GPU_SPREAD_UNROLLED; k++) {
      loaded[k] = gpu_vector_load(src + start + (i + (size_t)k * step) * GPU_VECTOR_BYTES);
    }
    for (int k = 0; k < GPU_SPREAD_UNROLLED; k++) {
      gpu_spread_one(dsts, count, start + (i + (size_t)k * step) * GPU_VECTOR_BYTES, loaded[k]);
    }
  }
  for (; i < vectors; i += step) {
    size_t at = start + i * GPU_VECTOR_BYTES;
    gpu_spread_one(dsts, count, at, gpu_vector_load(src + at));
  }
}

GPU_FUNCTION void gpu_spread_bytes(const char *const dsts[], int count, const char *src,
                                   size_t start, size_t bytes) {
  GPU_EACH(i, bytes) {
    uint8_t byte = GPU_LOAD(uint8_t, src + start + i);
    for (int k = 0; k < count; k++) {
      GPU_STORE(uint8_t, (char *)(uintptr_t)dsts[k] + start + i, byte);
    }
  }
}

/* Whether vectors can be stored to all destinations, none of which is the source itself. */
GPU_FUNCTION bool gpu_spreads_vectors(const char *const dsts[], int count, const char *src) {
  bool all = gpu_equally_aligned(src, dsts, count);
  for (int i = 0; i < count; i++) all = all && dsts[i] != src;
  return all;
}

/* False: nothing was copied, as not all can be in vectors. */
GPU_LONG_FUNCTION bool gpu_spread_aligned(const char *const dsts[], int count, const char *src,
                                          size_t bytes) {
  if (!gpu_spreads_vectors(dsts, count, src)) return false;
  size_t head = gpu_to_multiple(src, GPU_VECTOR_BYTES, bytes);
  size_t vectors = (bytes - head) / GPU_VECTOR_BYTES, done = head + vectors * GPU_VECTOR_BYTES;
  gpu_spread_bytes(dsts, count, src, 0, head);
  gpu_spread_vectors(dsts, count, src, head, vectors);
  gpu_spread_bytes(dsts, count, src, done, bytes - done);
  return true;
}

/* Copies operand `from` of the block to the `count` operands behind it, each of which equals it or
 * does not overlap it. */
GPU_FUNCTION void gpu_spread(const gpu_run_t *run, int from, int count, size_t bytes) {
  const char *const *operands = run->operands + from;
  if (gpu_uniform(gpu_spread_aligned(operands + 1, count, operands[0], bytes))) return;
  for (int i = 1; i <= count; i++) gpu_copy((char *)(uintptr_t)operands[i], operands[0], bytes);
}

/* Operand `sources` of the block = the reduction of those before it. */
GPU_FUNCTION void gpu_reduce_operands(const gpu_run_t *run, int sources, size_t bytes) {
  size_t element_bytes = run->call->element_bytes;
  gpu_reduce(run->call->dtype, run->call->op, (char *)(uintptr_t)run->operands[sources],
             run->operands, sources, bytes / element_bytes, element_bytes);
}

GPU_FUNCTION void gpu_move_operands(const gpu_run_t *run, int count, size_t bytes) {
  gpu_barrier();
  GPU_EACH(k, (size_t)count) run->operands[k] += bytes;
  gpu_barrier();
}

/* Bytes of the next tile: the first one ends where vectors of the first destination do. Found again
 * whenever it is needed, as other code needs the registers more. */
GPU_FUNCTION size_t gpu_tile(const gpu_run_t *run, int sources, size_t bytes) {
  size_t head = gpu_to_multiple(run->operands[sources], GPU_VECTOR_BYTES, bytes);
  return gpu_min(head + GPU_TILE_BYTES, bytes);
}

/* As gpu_reduce, of the block's operands: `sources` of them, then the destinations, each of which
 * equals a source or overlaps none. They are changed. */
GPU_FUNCTION void gpu_reduce_to_all(const gpu_run_t *run, int sources, int dsts, size_t bytes) {
  if (gpu_uniform(sources == 1)) gpu_spread(run, 0, dsts, bytes);
  if (gpu_uniform(sources > 1 && dsts == 1)) gpu_reduce_operands(run, sources, bytes);
  while (gpu_uniform(sources > 1 && dsts > 1 && bytes > 0)) {
    gpu_reduce_operands(run, sources, gpu_tile(run, sources, bytes));
    gpu_barrier();
    gpu_spread(run, sources, dsts - 1, gpu_tile(run, sources, bytes));
    size_t moved = gpu_tile(run, sources, bytes);
    gpu_move_operands(run, sources + dsts, moved);
    bytes -= moved;
  }
}

#endif
