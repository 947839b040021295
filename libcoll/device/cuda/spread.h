/*
 * Copies and reductions with several destinations, so that what they read is loaded from memory
 * once: a copy stores every vector to all of them. A reduction works in tiles, which are stored to
 * the first destination and copied from there while they are in the caches of the device.
 */
#ifndef DEVICE_CUDA_SPREAD_H
#define DEVICE_CUDA_SPREAD_H

#include "device/cuda/compute.h"

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

/* Copies to all destinations, each of which equals the source or does not overlap it. */
GPU_LONG_FUNCTION void gpu_spread(const char *const dsts[], int count, const char *src,
                                  size_t bytes) {
  if (!gpu_spreads_vectors(dsts, count, src)) {
    for (int i = 0; i < count; i++) gpu_copy((char *)(uintptr_t)dsts[i], src, bytes);
    return;
  }
  size_t head = gpu_to_multiple(src, GPU_VECTOR_BYTES, bytes);
  size_t vectors = (bytes - head) / GPU_VECTOR_BYTES, done = head + vectors * GPU_VECTOR_BYTES;
  gpu_spread_bytes(dsts, count, src, 0, head);
  gpu_spread_vectors(dsts, count, src, head, vectors);
  gpu_spread_bytes(dsts, count, src, done, bytes - done);
}

/* As gpu_reduce. operands: `sources` of them, then `dst_count` destinations, each of which equals a
 * source or overlaps none; shared by the threads of the block, and changed. */
GPU_FUNCTION void gpu_reduce_to_all(int dtype, int op, const char **operands, int sources,
                                    int dst_count, size_t elements, size_t element_bytes) {
  size_t bytes = elements * element_bytes;
  const char *const *dsts = operands + sources;
  if (sources == 1) {
    gpu_spread(dsts, dst_count, operands[0], bytes);
    return;
  }
  size_t tile = gpu_to_multiple(dsts[0], GPU_VECTOR_BYTES, bytes) + GPU_TILE_BYTES;
  while (bytes > 0) {
    size_t now = tile < bytes ? tile : bytes;
    gpu_reduce(dtype, op, (char *)(uintptr_t)dsts[0], operands, sources, now / element_bytes,
               element_bytes);
    gpu_barrier();
    gpu_spread(dsts + 1, dst_count - 1, dsts[0], now);
    gpu_barrier();
    GPU_EACH(k, (size_t)(sources + dst_count)) operands[k] += now;
    gpu_barrier();
    bytes -= now;
    tile = GPU_TILE_BYTES;
  }
}

#endif
