/*
 * The entry into a call whose plan accesses INPUT or OUTPUT of peers: no rank starts before all
 * ranks have entered the call (plan.h). In each slice, lane 0 tells every peer that this rank has
 * arrived, and waits until all have. The other lanes of the slice wait for lane 0. So what was done
 * to a peer's buffers before its call, as by kernels before it on its stream, happens before this
 * rank accesses them: the start of a kernel, the release of the flag, its acquisition, and the
 * barrier of the block follow each other.
 *
 * Ranks arrive once in a call, not in each pass: passes access different elements of INPUT and
 * OUTPUT, also in place, and how a rank follows its peers within a call is in the plan, which also
 * keeps it in the call until no peer accesses its buffers any more. The verifier proves that.
 *
 * Arrivals of a slice are numbered over all calls that have them, alike on all ranks, as all make
 * the same calls with the same slices. A rank arrives for the next time only after all peers have
 * for this time, so none is more than one number ahead, and number n in word n % GPU_FLAGS is never
 * overwritten before it is seen. The flag carries the digest of the call, which contains the places
 * of the buffers in their windows: no rank accesses a peer's memory if their calls differ.
 */
#ifndef DEVICE_CUDA_ENTER_H
#define DEVICE_CUDA_ENTER_H

#include "device/cuda/wait.h"

#define GPU_ARRIVAL_POLLS 64 /* by a thread for each peer, before one thread waits for all */

GPU_FUNCTION uint64_t *gpu_peer_arrivals(const gpu_run_t *run, int32_t peer) {
  return gpu_arena_arrivals(run->room, run->arena, peer, run->slice);
}

/* Thread i tells rank i. No thread has stored anything in this call before. */
GPU_FUNCTION void gpu_tell_arrival(const gpu_run_t *run, uint64_t number) {
  int32_t rank = run->program->rank;
  uint64_t flag = gpu_flag_of(number, run->digest);
  GPU_EACH(peer, (size_t)run->program->size) {
    if (peer == (size_t)rank) continue;
    char *arena = run->rank->arenas[peer];
    gpu_delay();
    gpu_store_release(&gpu_arena_arrivals(run->room, arena, rank, run->slice)[number % GPU_FLAGS],
                      flag);
  }
}

/* Thread i polls for rank i for a while, so that arrivals on time cost one poll, not one each. */
GPU_FUNCTION bool gpu_arrive_soon(const gpu_run_t *run, uint64_t number) {
  uint64_t flag = gpu_flag_of(number, run->digest);
  bool all = true;
  GPU_EACH(peer, (size_t)run->program->size) {
    if (peer == (size_t)run->program->rank) continue;
    const uint64_t *word = &gpu_peer_arrivals(run, (int32_t)peer)[number % GPU_FLAGS];
    uint32_t polls = 0;
    while (gpu_load_acquire(word) != flag && ++polls < GPU_ARRIVAL_POLLS) gpu_pause();
    all = all && polls < GPU_ARRIVAL_POLLS;
  }
  return all;
}

/* One after the other, so that the wait can fail, and is recorded. */
GPU_LONG_FUNCTION bool gpu_wait_for_arrivals(const gpu_run_t *run, uint64_t number) {
  for (int32_t peer = 0; peer < run->program->size; peer++) {
    if (peer == run->program->rank) continue;
    if (!gpu_wait_flag(run, gpu_peer_arrivals(run, peer), number, run->digest, peer)) return false;
  }
  return true;
}

/* Lane 0 of a slice. False: the call cannot go on. */
GPU_LONG_FUNCTION bool gpu_enter(const gpu_run_t *run) {
  uint64_t *own = gpu_arena_own_arrivals(run->room, run->arena, run->slice);
  uint64_t number = *own + 1;
  gpu_tell_arrival(run, number);
  bool all = gpu_arrive_soon(run, number);
  if (!gpu_barrier_all(all) && !gpu_wait_for_arrivals(run, number)) return false;
  if (gpu_thread() == 0) *own = number;
  return true;
}

#endif
