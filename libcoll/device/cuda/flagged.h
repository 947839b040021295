/*
 * Messages that carry their flags: in every word (ll.h), or in every line (ll128.h). The receiver
 * polls what it takes, so a message needs neither a flag of its own nor a store that waits for all
 * others. Such messages order no other memory: only plans in which no rank accesses memory of
 * another have them.
 *
 * Their slots and numbers are apart from those of other messages. A flag that a message does not
 * use keeps the number of an earlier message, so numbers must not come round to it: a sender fills
 * each slot to its end once in GPU_FLAGGED_PERIOD messages, the first time included. So the numbers
 * in a slot differ by less than half of 2^16 from the number that is waited for, and never-written
 * flags, which are zero, are not read.
 */
#ifndef DEVICE_CUDA_FLAGGED_H
#define DEVICE_CUDA_FLAGGED_H

#include "device/cuda/ll128.h"

#define GPU_FLAGGED_PERIOD 16384 /* more than the depth of any ring */

/* A message: its slot, and the flag that it has everywhere. */
typedef struct gpu_message {
  gpu_flagged_t kind;
  uint64_t number; /* of the messages before it */
  uint64_t flag;
  uint64_t *slot;
} gpu_message_t;

GPU_FUNCTION gpu_flagged_t gpu_flagged_kind(const gpu_run_t *run) {
  return run->call->protocol == GPU_PROTOCOL_LL ? GPU_FLAGGED_WORDS : GPU_FLAGGED_LINES;
}

/* Message `number` from rank `from` to rank `to`. */
GPU_FUNCTION gpu_message_t gpu_flagged_message(const gpu_run_t *run, const gpu_action_t *action,
                                               int32_t from, int32_t to, uint64_t number,
                                               uint64_t digest) {
  gpu_message_t message;
  message.kind = gpu_flagged_kind(run);
  message.number = number;
  message.flag = message.kind == GPU_FLAGGED_WORDS ? gpu_ll_flag(number + 1, digest)
                                                   : gpu_flag_of(number + 1, digest);
  message.slot = gpu_arena_flagged_slot(run->room, run->rank->arenas[to], message.kind, from,
                                        gpu_ring_of(run, action->channel), number);
  return message;
}

/* Words of 8 bytes up to and with a flag. */
GPU_FUNCTION size_t gpu_flagged_stride(const gpu_message_t *message) {
  return message->kind == GPU_FLAGGED_WORDS ? 1 : GPU_LINE_WORDS;
}

/* Flags of a piece. */
GPU_FUNCTION size_t gpu_flagged_count(const gpu_message_t *message, size_t bytes) {
  return message->kind == GPU_FLAGGED_WORDS ? gpu_ll_words(bytes) : gpu_ll128_lines(bytes);
}

GPU_FUNCTION uint64_t *gpu_flagged_flag(const gpu_message_t *message, size_t index) {
  size_t stride = gpu_flagged_stride(message);
  return message->slot + index * stride + (stride - 1);
}

/* ---- sending --------------------------------------------------------------------------------*/

/* Stores the pieces. A message without data has one flag too, whose digest is compared as that of
 * any other. Returns the number of flags. */
GPU_FUNCTION size_t gpu_flagged_put(const gpu_run_t *run, const gpu_action_t *action,
                                    const gpu_message_t *message) {
  size_t used = 0;
  for (int32_t i = 0; i < action->piece_count; i++) {
    gpu_range_t range = gpu_range_of(run, &run->pieces[action->pieces + (uint32_t)i]);
    uint64_t *to = message->slot + used * gpu_flagged_stride(message);
    if (message->kind == GPU_FLAGGED_WORDS) {
      gpu_ll_put(to, range.at, range.bytes, message->flag);
    } else {
      gpu_ll128_put(to, range.at, range.bytes, message->flag);
    }
    used += gpu_flagged_count(message, range.bytes);
  }
  if (used > 0) return used;
  if (gpu_thread() == 0) gpu_store_relaxed64(gpu_flagged_flag(message, 0), message->flag);
  return 1;
}

/* Fills the slot to its end. */
GPU_FUNCTION void gpu_flagged_fill(const gpu_run_t *run, const gpu_message_t *message,
                                   size_t used) {
  size_t words = gpu_flagged_slot_bytes(run->room, message->kind) / sizeof(uint64_t);
  GPU_EACH(i, words / gpu_flagged_stride(message) - used) {
    gpu_store_relaxed64(gpu_flagged_flag(message, used + i), message->flag);
  }
}

GPU_FUNCTION gpu_own_t *gpu_flagged_own(const gpu_run_t *run, const gpu_action_t *action) {
  return &gpu_own_fifo(run, action)->own_flagged[gpu_flagged_kind(run)];
}

GPU_LONG_FUNCTION bool gpu_flagged_send(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_own_t *own = gpu_flagged_own(run, action);
  uint64_t number = own->sent, digest;
  if (!gpu_message_digest(run, action, &digest)) return true;
  if (!gpu_wait_slot(run, &gpu_own_fifo(run, action)->flagged_taken[gpu_flagged_kind(run)].count,
                     &own->seen, number, action->peer)) {
    return false;
  }
  const gpu_message_t message =
      gpu_flagged_message(run, action, run->program->rank, action->peer, number, digest);
  size_t used = gpu_flagged_put(run, action, &message);
  if (message.number % GPU_FLAGGED_PERIOD < (uint64_t)run->room->depth) {
    gpu_flagged_fill(run, &message, used);
  }
  gpu_barrier();
  if (gpu_thread() == 0) gpu_flagged_own(run, action)->sent = message.number + 1;
  gpu_barrier();
  return true;
}

/* ---- receiving ------------------------------------------------------------------------------*/

GPU_FUNCTION bool gpu_flagged_take_empty(const gpu_run_t *run, const gpu_message_t *message,
                                         int32_t peer) {
  bool words = message->kind == GPU_FLAGGED_WORDS;
  const gpu_awaited_t awaited = {gpu_flagged_flag(message, 0), message->flag,
                                 64 - (words ? GPU_LL_DIGEST_SHIFT : GPU_COUNT_BITS), peer, NULL};
  uint32_t data;
  uint64_t seen;
  if (gpu_thread() != 0) return true;
  return words ? gpu_ll_poll(run, &awaited, &data) : gpu_poll(run, &awaited, &seen);
}

GPU_FUNCTION bool gpu_flagged_take_piece(const gpu_run_t *run, const gpu_message_t *message,
                                         size_t used, const gpu_range_t *to, int32_t peer) {
  const uint64_t *from = message->slot + used * gpu_flagged_stride(message);
  if (message->kind == GPU_FLAGGED_WORDS) {
    return gpu_ll_take(run, from, to->at, to->bytes, message->flag, peer);
  }
  return gpu_ll128_take(run, from, to->at, to->bytes, message->flag, peer);
}

/* Loads the pieces. False: the call cannot go on. */
GPU_FUNCTION bool gpu_flagged_take(const gpu_run_t *run, const gpu_action_t *action,
                                   const gpu_message_t *message) {
  size_t used = 0;
  for (int32_t i = 0; i < action->piece_count; i++) {
    gpu_range_t range = gpu_range_of(run, &run->pieces[action->pieces + (uint32_t)i]);
    if (!gpu_flagged_take_piece(run, message, used, &range, action->peer)) return false;
    used += gpu_flagged_count(message, range.bytes);
  }
  return used > 0 || gpu_flagged_take_empty(run, message, action->peer);
}

/* The slot is free when all data have been loaded: a thread has its values before the barrier, so
 * the store that follows needs no release. */
GPU_LONG_FUNCTION bool gpu_flagged_recv(const gpu_run_t *run, const gpu_action_t *action) {
  uint64_t number = gpu_flagged_own(run, action)->taken, digest;
  if (!gpu_message_digest(run, action, &digest)) return true;
  const gpu_message_t message =
      gpu_flagged_message(run, action, action->peer, run->program->rank, number, digest);
  if (!gpu_barrier_all(gpu_flagged_take(run, action, &message))) return false;
  if (gpu_thread() == 0) {
    gpu_fifo_t *peer = gpu_peer_fifo(run, action);
    gpu_flagged_own(run, action)->taken = message.number + 1;
    gpu_store_relaxed64(&peer->flagged_taken[gpu_flagged_kind(run)].count, message.number + 1);
  }
  gpu_barrier();
  return true;
}

#endif
