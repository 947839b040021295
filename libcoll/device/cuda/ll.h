/*
 * Messages of flagged words, for small calls (the idea of NCCL's LL protocol). A word of 8 bytes is
 * stored and loaded as a whole: 4 bytes of data, and above them a flag of 4, which is the number of
 * the message, modulo 2^16, and above that 16 bits of its digest (arena.h). Half of the bytes of a
 * message are flags.
 */
#ifndef DEVICE_CUDA_LL_H
#define DEVICE_CUDA_LL_H

#include "device/cuda/message.h"

#define GPU_LL_DIGEST_SHIFT 48

GPU_FUNCTION size_t gpu_ll_words(size_t bytes) {
  return (bytes + GPU_LL_BYTES - 1) / GPU_LL_BYTES;
}

/* A word without data. */
GPU_FUNCTION uint64_t gpu_ll_flag(uint64_t number, uint64_t digest) {
  return digest >> GPU_LL_DIGEST_SHIFT << GPU_LL_DIGEST_SHIFT | (number & 0xffff) << 32;
}

/* Up to 4 bytes at any address. */
GPU_FUNCTION uint32_t gpu_ll_load(const char *from, size_t bytes) {
  uint32_t data = 0;
  if (bytes >= GPU_LL_BYTES && (uintptr_t)from % GPU_LL_BYTES == 0) {
    return GPU_LOAD(uint32_t, from);
  }
  for (uint32_t i = 0; i < GPU_LL_BYTES && i < bytes; i++) {
    data |= (uint32_t)GPU_LOAD(uint8_t, from + i) << 8 * i;
  }
  return data;
}

GPU_FUNCTION void gpu_ll_store(char *to, uint32_t data, size_t bytes) {
  if (bytes >= GPU_LL_BYTES && (uintptr_t)to % GPU_LL_BYTES == 0) {
    GPU_STORE(uint32_t, to, data);
    return;
  }
  for (uint32_t i = 0; i < GPU_LL_BYTES && i < bytes; i++) {
    GPU_STORE(uint8_t, to + i, (uint8_t)(data >> 8 * i));
  }
}

GPU_FUNCTION void gpu_ll_put(uint64_t *words, const char *from, size_t bytes, uint64_t flag) {
  GPU_EACH(i, gpu_ll_words(bytes)) {
    size_t at = i * GPU_LL_BYTES;
    gpu_delay();
    gpu_store_relaxed64(&words[i], flag | gpu_ll_load(from + at, bytes - at));
  }
}

/* A thread's wait for one word. False: the call cannot go on. */
GPU_FUNCTION bool gpu_ll_poll(const gpu_run_t *run, const gpu_awaited_t *awaited, uint32_t *data) {
  for (uint32_t polls = 1;; polls++) {
    uint64_t word = gpu_load_relaxed64(awaited->flag), flag = word >> 32 << 32;
    *data = (uint32_t)word;
    if (flag == awaited->value) {
      if (polls >= GPU_LONG_INTERVAL) gpu_record_wait(run, awaited->peer, 0);
      return true;
    }
    if (!gpu_poll_again(run, awaited, flag, polls)) return false;
  }
}

GPU_LONG_FUNCTION bool gpu_ll_take(const gpu_run_t *run, const uint64_t *words, char *to,
                                   size_t bytes, uint64_t flag, int32_t peer) {
  GPU_EACH(i, gpu_ll_words(bytes)) {
    const gpu_awaited_t awaited = {&words[i], flag, 64 - GPU_LL_DIGEST_SHIFT, peer, NULL};
    size_t at = i * GPU_LL_BYTES;
    uint32_t data;
    if (!gpu_ll_poll(run, &awaited, &data)) return false;
    gpu_ll_store(to + at, data, bytes - at);
  }
  return true;
}

#endif
