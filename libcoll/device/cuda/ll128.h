/*
 * Messages of flagged lines, for calls of middle size (the idea of NCCL's LL128 protocol). A line
 * of 128 bytes is stored and loaded as a whole (gpu.h): 120 bytes of data, and in its last word the
 * flag of the message, number and digest, as other messages have it (arena.h). Where a line may
 * arrive in parts, as over PCIe, there are no such messages.
 */
#ifndef DEVICE_CUDA_LL128_H
#define DEVICE_CUDA_LL128_H

#include "device/cuda/ll.h"

GPU_FUNCTION size_t gpu_ll128_lines(size_t bytes) {
  return gpu_quotient(bytes + GPU_LL128_BYTES - 1, GPU_LL128_BYTES);
}

/* Up to 8 bytes at any address. */
GPU_FUNCTION uint64_t gpu_ll128_load(const char *from, size_t bytes) {
  if (bytes >= sizeof(uint64_t) && (uintptr_t)from % sizeof(uint64_t) == 0) {
    return GPU_LOAD(uint64_t, from);
  }
  uint64_t data = gpu_ll_load(from, bytes);
  if (bytes <= GPU_LL_BYTES) return data;
  return data | (uint64_t)gpu_ll_load(from + GPU_LL_BYTES, bytes - GPU_LL_BYTES) << 32;
}

GPU_FUNCTION void gpu_ll128_store(char *to, uint64_t data, size_t bytes) {
  if (bytes >= sizeof(uint64_t) && (uintptr_t)to % sizeof(uint64_t) == 0) {
    GPU_STORE(uint64_t, to, data);
    return;
  }
  gpu_ll_store(to, (uint32_t)data, bytes);
  if (bytes <= GPU_LL_BYTES) return;
  gpu_ll_store(to + GPU_LL_BYTES, (uint32_t)(data >> 32), bytes - GPU_LL_BYTES);
}

/* Where the piece has the data of a word that the thread holds; `bytes`, if it has none. */
GPU_FUNCTION size_t gpu_ll128_at(size_t line, uint32_t held, size_t bytes) {
  uint32_t word = gpu_line_word(held);
  size_t at = line * GPU_LL128_BYTES + word * sizeof(uint64_t);
  return word < GPU_LINE_WORDS - 1 ? gpu_min(at, bytes) : bytes;
}

GPU_LONG_FUNCTION void gpu_ll128_put(uint64_t *lines, const char *from, size_t bytes,
                                     uint64_t flag) {
  GPU_EACH_LINE(i, gpu_ll128_lines(bytes)) {
    gpu_line_t line;
    for (uint32_t k = 0; k < GPU_LINE_HELD; k++) {
      size_t at = gpu_ll128_at(i, k, bytes);
      line.words[k] = gpu_ll128_load(from + at, bytes - at);
      if (gpu_line_word(k) == GPU_LINE_WORDS - 1) line.words[k] = flag;
    }
    gpu_delay();
    gpu_line_store(lines + i * GPU_LINE_WORDS, &line);
  }
}

/* As gpu_ll_poll, for a line, by all threads that hold it. */
GPU_FUNCTION bool gpu_ll128_poll(const gpu_run_t *run, const gpu_awaited_t *awaited,
                                 const uint64_t *words, gpu_line_t *line) {
  for (uint32_t polls = 1;; polls++) {
    uint64_t flag = gpu_line_load(words, line);
    if (flag == awaited->value) {
      if (polls >= GPU_LONG_INTERVAL) gpu_record_wait(run, awaited->peer, 0);
      return true;
    }
    if (!gpu_line_all(gpu_poll_again(run, awaited, flag, polls))) return false;
  }
}

GPU_LONG_FUNCTION bool gpu_ll128_take(const gpu_run_t *run, const uint64_t *lines, char *to,
                                      size_t bytes, uint64_t flag, int32_t peer) {
  GPU_EACH_LINE(i, gpu_ll128_lines(bytes)) {
    const uint64_t *words = lines + i * GPU_LINE_WORDS;
    const gpu_awaited_t awaited = {&words[GPU_LINE_WORDS - 1], flag, 64 - GPU_COUNT_BITS, peer,
                                   NULL};
    gpu_line_t line;
    if (!gpu_ll128_poll(run, &awaited, words, &line)) return false;
    for (uint32_t k = 0; k < GPU_LINE_HELD; k++) {
      size_t at = gpu_ll128_at(i, k, bytes);
      gpu_ll128_store(to + at, line.words[k], bytes - at);
    }
  }
  return true;
}

#endif
