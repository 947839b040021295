/* What messages of either protocol have in common. */
#ifndef DEVICE_CUDA_MESSAGE_H
#define DEVICE_CUDA_MESSAGE_H

#include "device/cuda/range.h"
#include "device/cuda/wait.h"

/* This rank's end of the FIFO, and the peer's. */
GPU_FUNCTION gpu_fifo_t *gpu_own_fifo(const gpu_run_t *run, const gpu_action_t *action) {
  return gpu_arena_fifo(run->room, run->arena, action->peer, gpu_ring_of(run, action->channel));
}
GPU_FUNCTION gpu_fifo_t *gpu_peer_fifo(const gpu_run_t *run, const gpu_action_t *action) {
  char *arena = run->rank->arenas[action->peer];
  return gpu_arena_fifo(run->room, arena, run->program->rank, gpu_ring_of(run, action->channel));
}

/* The digest of a message; with uneven blocks it contains their sizes. False: the message is not
 * sent. Both ends of a message of uneven blocks know its size, but not each other's number of
 * passes, so an empty one is left out. In even calls it is sent, as it may order other accesses. */
GPU_FUNCTION bool gpu_message_digest(const gpu_run_t *run, const gpu_action_t *action,
                                     uint64_t *digest) {
  size_t bytes = 0;
  *digest = run->digest;
  if (run->call->input_blocks.counts == NULL) return true;
  for (int32_t i = 0; i < action->piece_count; i++) {
    const gpu_piece_t *piece = &run->pieces[action->pieces + (uint32_t)i];
    *digest = gpu_mix(*digest, gpu_block_count(run, piece));
    bytes += gpu_range_of(run, piece).bytes;
  }
  return bytes > 0;
}

#endif
