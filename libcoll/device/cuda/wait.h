/*
 * Flags: how a block announces messages, signals and progress, and how it waits for those of peers
 * and of other lanes. A wait ends early when the abort word is set, or when the peer turns out to
 * make another call; then the block ends, and the rank's `failed` word says why.
 */
#ifndef DEVICE_CUDA_WAIT_H
#define DEVICE_CUDA_WAIT_H

#include "device/cuda/mismatch.h"

/* What a block waits for: a count. */
typedef struct gpu_awaited {
  const uint64_t *flag;
  uint64_t value;
  int32_t shift;  /* bits of the flag above its count, which are its digest */
  int32_t peer;   /* who stores the flag; GPU_OWN_LANE: another lane of this rank */
  uint64_t *seen; /* where the flag is kept that ended the wait; NULL: nowhere */
} gpu_awaited_t;

#define GPU_OWN_LANE (-1) /* as a peer */

GPU_FUNCTION uint64_t gpu_flag_of(uint64_t number, uint64_t digest) {
  return (digest & ~GPU_COUNT_MASK) | (number & GPU_COUNT_MASK);
}

/* Counts wrap; those that are compared are less than half their range apart. */
GPU_FUNCTION bool gpu_is_reached(const gpu_awaited_t *awaited, uint64_t seen) {
  return (int64_t)((seen - awaited->value) << awaited->shift) >= 0;
}

/* Whether it is the flag that was waited for, but of another call. A higher count is of a later
 * message or signal (arena.h). */
GPU_FUNCTION bool gpu_is_mismatched(const gpu_awaited_t *awaited, uint64_t seen) {
  return seen != awaited->value && (seen ^ awaited->value) << awaited->shift == 0;
}

/* Whether a peer that is waited for will never store the flag: its call of this number is another,
 * or has ended. All that a call stores to flags is visible to who sees that it has ended. */
GPU_LONG_FUNCTION bool gpu_is_unreachable(const gpu_run_t *run, const gpu_awaited_t *awaited) {
  gpu_entry_t theirs;
  if (awaited->peer == GPU_OWN_LANE || run->call->identity == 0) return false;
  char *arena = run->rank->arenas[awaited->peer];
  if (gpu_entry_read(arena, run->number, &theirs) &&
      !gpu_words_are(theirs.words, run->call->words)) {
    return true;
  }
  if (gpu_load_acquire(&gpu_arena_counters(arena)->collectives) <= run->number) return false;
  return !gpu_is_reached(awaited, gpu_load_acquire(awaited->flag));
}

/* Tells the host what this block waits for; 0: nothing. */
GPU_FUNCTION void gpu_record_wait(const gpu_run_t *run, int32_t peer, uint64_t intervals) {
  gpu_record_t *record = run->rank->record;
  if (record == NULL || peer == GPU_OWN_LANE || gpu_thread() != 0) return;
  if ((size_t)run->lane >= gpu_record_lanes(run->room)) return;
  uint64_t *waits = gpu_record_waits(record);
  uint64_t word = intervals == 0 ? 0 : intervals << 32 | ((uint32_t)peer + 1);
  gpu_store_relaxed64(&waits[run->lane * run->room->slices + run->slice], word);
}

/* Once in GPU_ABORT_INTERVAL polls. False: the wait is over, as it is for all blocks and threads of
 * a rank when one has failed. */
GPU_LONG_FUNCTION bool gpu_still_waits(const gpu_run_t *run, const gpu_awaited_t *awaited,
                                       uint32_t polls) {
  if (gpu_load_relaxed(run->rank->abort) != 0) return false;
  if (gpu_load_relaxed(&gpu_arena_counters(run->arena)->failures) != 0) return false;
  if (polls % GPU_LONG_INTERVAL != 0) return true;
  gpu_record_wait(run, awaited->peer, polls / GPU_LONG_INTERVAL);
  if (!gpu_is_unreachable(run, awaited)) return true;
  gpu_report_mismatch(run, awaited->peer, 0, 0);
  return false;
}

/* Thread 0. *seen: the flag that ended the wait. */
GPU_FUNCTION bool gpu_poll(const gpu_run_t *run, const gpu_awaited_t *awaited, uint64_t *seen) {
  for (uint32_t polls = 1;; polls++) {
    *seen = gpu_load_acquire(awaited->flag);
    if (gpu_is_reached(awaited, *seen)) {
      if (polls >= GPU_LONG_INTERVAL) gpu_record_wait(run, awaited->peer, 0);
      if (!gpu_is_mismatched(awaited, *seen)) return true;
      gpu_report_mismatch(run, awaited->peer, awaited->value, *seen);
      return false;
    }
    if (polls % GPU_ABORT_INTERVAL == 0 && !gpu_still_waits(run, awaited, polls)) return false;
    gpu_pause();
  }
}

/* After poll number `polls` of any thread, which has found `seen` and not the flag that it waits
 * for. False: the call cannot go on. */
GPU_FUNCTION bool gpu_poll_again(const gpu_run_t *run, const gpu_awaited_t *awaited, uint64_t seen,
                                 uint32_t polls) {
  if (gpu_is_mismatched(awaited, seen)) {
    gpu_report_mismatch(run, awaited->peer, awaited->value, seen);
    return false;
  }
  if (polls % GPU_LONG_INTERVAL == 0 && !gpu_still_waits(run, awaited, polls)) return false;
  gpu_pause();
  return true;
}

/* Waits until the count of the flag is at least `value`. False: the call cannot go on. */
GPU_LONG_FUNCTION bool gpu_wait(const gpu_run_t *run, const gpu_awaited_t *awaited) {
  bool reached = true;
  uint64_t seen = 0;
  if (gpu_thread() == 0) reached = gpu_poll(run, awaited, &seen);
  if (!gpu_barrier_all(reached)) return false;
  /* Behind the barrier, as all threads decide by it whether to wait. */
  if (awaited->seen != NULL && gpu_thread() == 0) *awaited->seen = seen;
  return true;
}

/* For message or signal `number` of the peer; flags: [GPU_FLAGS]. */
GPU_LONG_FUNCTION bool gpu_wait_flag(const gpu_run_t *run, const uint64_t *flags, uint64_t number,
                                     uint64_t digest, int32_t peer) {
  const gpu_awaited_t awaited = {&flags[number % GPU_FLAGS], gpu_flag_of(number, digest),
                                 64 - GPU_COUNT_BITS, peer, NULL};
  return gpu_wait(run, &awaited);
}

/* For a flag without a digest. */
GPU_LONG_FUNCTION bool gpu_wait_count(const gpu_run_t *run, const uint64_t *flag, uint64_t count,
                                      int32_t peer) {
  const gpu_awaited_t awaited = {flag, count, 0, peer, NULL};
  return gpu_wait(run, &awaited);
}

/* Waits until slot `number` of a ring to the peer is free: until `taken`, in this rank's arena,
 * says that the message before in the slot was copied. *seen: what it last said. */
GPU_LONG_FUNCTION bool gpu_wait_slot(const gpu_run_t *run, const uint64_t *taken, uint64_t *seen,
                                     uint64_t number, int32_t peer) {
  uint64_t depth = (uint64_t)run->room->depth;
  if (number - *seen < depth) return true;
  const gpu_awaited_t awaited = {taken, number - depth + 1, 0, peer, seen};
  return gpu_wait(run, &awaited);
}

/* Stores the flag behind all that the block has done, and the block's own counter, if any. */
GPU_LONG_FUNCTION void gpu_publish(uint64_t *flag, uint64_t value, uint64_t *counter,
                                   uint64_t count) {
  gpu_barrier();
  if (gpu_thread() == 0) {
    gpu_delay();
    if (counter != NULL) *counter = count;
    gpu_store_release(flag, value);
  }
  gpu_barrier();
}

/* Message or signal `number`; flags: [GPU_FLAGS]. */
GPU_FUNCTION void gpu_publish_flag(uint64_t *flags, uint64_t number, uint64_t digest,
                                   uint64_t *counter) {
  gpu_publish(&flags[number % GPU_FLAGS], gpu_flag_of(number, digest), counter, number);
}

GPU_FUNCTION uint64_t *gpu_lane_progress(const gpu_run_t *run, int32_t lane) {
  return gpu_arena_progress(run->room, run->arena, gpu_ring_of(run, lane));
}

GPU_FUNCTION void gpu_advance(const gpu_run_t *run, uint64_t steps) {
  gpu_publish(gpu_lane_progress(run, run->lane), run->base + steps, NULL, 0);
}

GPU_FUNCTION bool gpu_wait_for_lane(const gpu_run_t *run, int32_t lane, uint64_t steps) {
  return gpu_wait_count(run, gpu_lane_progress(run, lane), run->base + steps, GPU_OWN_LANE);
}

#endif
