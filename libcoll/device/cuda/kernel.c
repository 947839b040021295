/*
 * The kernel: interprets a rank's program. All threads of a block take the same way through it.
 * Thread 0 waits for flags and stores them; barriers of the block order that with the data that all
 * threads move. After a wait that the abort word ended, the block returns.
 *
 * Lanes of a rank follow each other by their progress: in pass p, a lane stores base + p * stride +
 * 1 when the pass may start, + 2 + s when step s is done, and base + (p + 1) * stride at the end
 * of the pass. Only what a lane may wait for is stored. All lanes end a pass before any begins the
 * next.
 */
#include "device/cuda/compute.h"
#include "device/cuda/enter.h"
#include "device/cuda/flagged.h"
#include "device/cuda/spread.h"

#ifndef __CUDACC__
_Thread_local gpu_virtual_thread_t gpu_virtual = {.blocks = 1, .threads = 1};
_Static_assert(sizeof(gpu_shared_t) <= GPU_VIRTUAL_SHARED, "memory of a block");
#endif

enum { GPU_PREPARED = 1, GPU_FIRST_STEP = 2 };

/* ---- actions --------------------------------------------------------------------------------*/

/* Copies the pieces to or from the slot, without gaps. */
GPU_FUNCTION void gpu_move_message(const gpu_run_t *run, const gpu_action_t *action, char *slot,
                                   bool sends) {
  for (int32_t i = 0; i < action->piece_count; i++) {
    gpu_range_t range = gpu_range_of(run, &run->pieces[action->pieces + (uint32_t)i]);
    gpu_copy(sends ? slot : range.at, sends ? range.at : slot, range.bytes);
    slot += range.bytes;
  }
}

GPU_LONG_FUNCTION bool gpu_send(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action), *peer = gpu_peer_fifo(run, action);
  uint64_t number = own->own_sent, digest;
  if (!gpu_message_digest(run, action, &digest)) return true;
  if (!gpu_wait_slot(run, &own->taken, &own->own_seen, number, action->peer)) return false;
  char *arena = run->rank->arenas[action->peer];
  char *slot = gpu_arena_slot(run->room, arena, run->program->rank,
                              gpu_ring_of(run, action->channel), number);
  gpu_move_message(run, action, slot, true);
  gpu_publish_flag(peer->sent, number + 1, digest, &own->own_sent);
  return true;
}

GPU_LONG_FUNCTION bool gpu_recv(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action), *peer = gpu_peer_fifo(run, action);
  uint64_t number = own->own_taken, digest;
  if (!gpu_message_digest(run, action, &digest)) return true;
  if (!gpu_wait_flag(run, own->sent, number + 1, digest, action->peer)) return false;
  char *slot = gpu_arena_slot(run->room, run->arena, action->peer,
                              gpu_ring_of(run, action->channel), number);
  gpu_move_message(run, action, slot, false);
  gpu_publish(&peer->taken, number + 1, &own->own_taken, number + 1);
  return true;
}

GPU_FUNCTION void gpu_signal(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action), *peer = gpu_peer_fifo(run, action);
  gpu_publish_flag(peer->signals, own->own_signals + 1, run->digest, &own->own_signals);
}

GPU_FUNCTION bool gpu_wait_signal(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action);
  uint64_t number = own->own_waits + 1;
  if (!gpu_wait_flag(run, own->signals, number, run->digest, action->peer)) return false;
  if (gpu_thread() == 0) own->own_waits = number;
  gpu_barrier();
  return true;
}

GPU_LONG_FUNCTION void gpu_copy_pieces(const gpu_run_t *run, const gpu_action_t *action) {
  for (int32_t i = 0; i < action->piece_count; i++) {
    const gpu_piece_t *piece = &run->pieces[action->pieces + 2 * (uint32_t)i];
    gpu_range_t dst = gpu_range_of(run, &piece[0]), src = gpu_range_of(run, &piece[1]);
    gpu_copy(dst.at, src.at, dst.bytes);
  }
}

/* Looks up the operands of piece i of a reduction, and returns their bytes: sources, the
 * destination, and those of the copies that are fused with it, which are the actions behind it.
 * Each thread of the block looks up one. */
GPU_LONG_FUNCTION size_t gpu_find_operands(const gpu_run_t *run, const gpu_action_t *action,
                                           int32_t i) {
  const gpu_piece_t *piece = &run->pieces[action->pieces + (uint32_t)i * action->operands];
  size_t sources = (size_t)action->operands - 1, dsts = 1 + (size_t)action->fused;
  size_t bytes = gpu_range_of(run, piece).bytes;
  if (bytes == 0) return 0;
  gpu_barrier();
  GPU_EACH(k, sources + dsts) {
    const gpu_piece_t *dst = piece;
    if (k > sources) dst = &run->pieces[action[k - sources].pieces + 2 * (uint32_t)i];
    run->operands[k] = gpu_range_of(run, k < sources ? &piece[1 + k] : dst).at;
  }
  gpu_barrier();
  return bytes;
}

GPU_LONG_FUNCTION void gpu_reduce_pieces(const gpu_run_t *run, const gpu_action_t *action) {
  for (int32_t i = 0; i < action->piece_count; i++) {
    size_t bytes = gpu_find_operands(run, action, i);
    if (gpu_uniform(bytes > 0)) {
      gpu_reduce_to_all(run, action->operands - 1, 1 + action->fused, bytes);
    }
  }
}

GPU_FUNCTION void gpu_compute_pieces(const gpu_run_t *run, const gpu_action_t *action) {
  if (gpu_uniform(action->kind == GPU_COPY && action->fused == 0)) {
    gpu_copy_pieces(run, action);
  } else {
    gpu_reduce_pieces(run, action);
  }
}

/* What one step writes the next may read, by other threads of the block. */
GPU_FUNCTION bool gpu_act(const gpu_run_t *run, const gpu_action_t *action) {
  bool flagged = run->call->protocol >= GPU_PROTOCOL_LL;
  gpu_delay();
  switch (action->kind) {
    case GPU_COPY:
    case GPU_REDUCE: gpu_compute_pieces(run, action); break;
    case GPU_SEND: return flagged ? gpu_flagged_send(run, action) : gpu_send(run, action);
    case GPU_RECV: return flagged ? gpu_flagged_recv(run, action) : gpu_recv(run, action);
    case GPU_SIGNAL: gpu_signal(run, action); return true;
    case GPU_WAIT: return gpu_wait_signal(run, action);
    default:
      return gpu_wait_for_lane(run, action->peer, GPU_FIRST_STEP + (uint64_t)action->channel);
  }
  gpu_barrier();
  return true;
}

/* ---- a call ---------------------------------------------------------------------------------*/

/* Scales this slice of the input, in the window of the pass. */
GPU_LONG_FUNCTION void gpu_scale_input(const gpu_run_t *run) {
  const gpu_call_t *call = run->call;
  for (int32_t block = 0; block < run->program->input_blocks; block++) {
    gpu_cut_t window;
    size_t begin = gpu_block_window(run, GPU_BASE_INPUT, block, &window) * call->element_bytes;
    if (window.count == 0) continue;
    gpu_scale(call->dtype, call->scaled + begin, call->input + begin, window.count, &call->scalar);
  }
  gpu_barrier();
}

GPU_LONG_FUNCTION void gpu_divide_output(const gpu_run_t *run) {
  const gpu_call_t *call = run->call;
  for (int32_t block = 0; block < run->program->output_blocks; block++) {
    gpu_cut_t window;
    size_t begin = gpu_block_window(run, GPU_BASE_OUTPUT, block, &window) * call->element_bytes;
    if (window.count == 0) continue;
    gpu_divide(call->dtype, call->output + begin, window.count, call->divisor);
  }
  gpu_barrier();
}

/* Lane 0 enters the call and scales the input for all lanes. */
GPU_LONG_FUNCTION bool gpu_prepare_pass(const gpu_run_t *run) {
  bool enters = run->program->enters && run->passes == 1, scales = run->call->scaled != NULL;
  if (!enters && !scales) return true;
  if (run->lane != 0) return gpu_wait_for_lane(run, 0, GPU_PREPARED);
  if (enters && !gpu_enter(run)) return false;
  if (scales) gpu_scale_input(run);
  if (run->program->lanes > 1) gpu_advance(run, GPU_PREPARED);
  return true;
}

/* Ends the pass with the other lanes. Lane 0 divides when they have ended, and ends then. */
GPU_LONG_FUNCTION bool gpu_end_pass(const gpu_run_t *run) {
  uint64_t end = run->program->stride;
  bool divides = run->call->divisor > 1 && run->lane == 0;
  if (run->program->lanes == 1 || run->program->independent) {
    if (divides) gpu_divide_output(run);
    return true;
  }
  if (!divides) gpu_advance(run, end);
  for (int32_t lane = 0; lane < run->program->lanes; lane++) {
    if (lane != run->lane && !gpu_wait_for_lane(run, lane, end)) return false;
  }
  if (divides) gpu_divide_output(run);
  if (divides) gpu_advance(run, end);
  return true;
}

/* gpu_next_window for all threads of the block. If there is one, it does not start at 0. */
GPU_FUNCTION bool gpu_enter_window(gpu_run_t *run, const gpu_action_t *action) {
  if (!run->program->independent) return false;
  gpu_barrier();
  if (gpu_thread() == 0) (void)gpu_next_window(run, action);
  gpu_barrier();
  return run->start > 0;
}

GPU_FUNCTION uint32_t gpu_lane_begin(const gpu_run_t *run) {
  return run->lane == 0 ? 0 : gpu_program_lane_ends(run->program)[run->lane - 1];
}

GPU_FUNCTION uint32_t gpu_lane_end(const gpu_run_t *run) {
  return gpu_program_lane_ends(run->program)[run->lane];
}

#define GPU_FAILED_STEP UINT32_MAX

/* Action i of the program, and what follows from it for others. Returns the next one; else
 * GPU_FAILED_STEP. */
GPU_FUNCTION uint32_t gpu_step(gpu_run_t *run, uint32_t i) {
  const gpu_action_t *action = &gpu_program_actions(run->program)[i];
  if (!gpu_uniform(gpu_act(run, action))) return GPU_FAILED_STEP;
  if (action->watched) gpu_advance(run, GPU_FIRST_STEP + (uint64_t)(i - gpu_lane_begin(run)));
  return gpu_enter_window(run, action) ? i : i + 1 + (uint32_t)action->fused;
}

GPU_FUNCTION bool gpu_run_lane(gpu_run_t *run) {
  uint32_t i = gpu_lane_begin(run);
  while (gpu_uniform(i < gpu_lane_end(run))) i = gpu_step(run, i);
  return gpu_uniform(i != GPU_FAILED_STEP);
}

/* Keeps the call for peers and for the host. False: a call before it has failed, so it must do
 * nothing. That one has not waited for its peers, which may still be in it: they access this rank's
 * SCRATCH, and read which call it was. */
GPU_FUNCTION bool gpu_begin_call(const gpu_run_t *run) {
  const gpu_call_t *call = run->call;
  gpu_record_t *record = run->rank->record;
  if (gpu_arena_counters(run->arena)->broken != 0) return false;
  if (gpu_block() != 0 || gpu_thread() != 0) return true;
  if (record != NULL) {
    gpu_store_relaxed64(&record->begun, gpu_arena_counters(run->arena)->calls + 1);
  }
  if (call->identity == 0) return true;
  gpu_entry_write(gpu_arena_entry(run->arena, run->number), run->number, call->words);
  if (record != NULL) gpu_entry_write(&record->collective, run->number, call->words);
  return true;
}

/* The last block of the launch counts the call. Every block has read the counters before. A call
 * that failed has not ended: peers conclude from the count that all messages were sent. Unlike
 * `failures`, `broken` does not change while blocks read it: all of a launch see the same. */
GPU_LONG_FUNCTION void gpu_end_call(const gpu_run_t *run) {
  const gpu_call_t *call = run->call;
  gpu_counters_t *counters = gpu_arena_counters(run->arena);
  gpu_record_t *record = run->rank->record;
  gpu_barrier();
  if (gpu_thread() != 0 || gpu_increment(&counters->ended) + 1 < gpu_blocks()) return;
  counters->ended = 0;
  if (gpu_load_relaxed(&counters->failures) != 0) {
    counters->broken = 1;
    return;
  }
  uint64_t collectives = run->number + (call->identity != 0 ? 1 : 0);
  counters->calls++;
  counters->base += (uint64_t)call->passes * run->program->stride;
  if (record != NULL) {
    gpu_store_relaxed64(&record->collectives, collectives);
    gpu_store_relaxed64(&record->ended, counters->calls);
  }
  if (call->identity == 0) return;
  counters->history = run->digest;
  gpu_store_release(&counters->collectives, collectives);
}

GPU_FUNCTION void gpu_copy_words_to_shared(void *to, const void *from, size_t bytes) {
  GPU_EACH(i, bytes / sizeof(uint32_t)) {
    const char *word = (const char *)from + i * sizeof(uint32_t);
    GPU_STORE(uint32_t, (char *)to + i * sizeof(uint32_t), GPU_LOAD(uint32_t, word));
  }
}

/* By one thread. */
GPU_FUNCTION void gpu_run_set(gpu_run_t *run, const gpu_call_t *call, gpu_shared_t *shared) {
  bool fits = call->program_bytes <= sizeof shared->program;
  const gpu_rank_t *rank = &shared->rank;
  run->call = call;
  run->rank = rank;
  run->program = fits ? (const gpu_program_t *)(const void *)shared->program : call->program;
  run->room = &rank->room;
  run->pieces = gpu_program_pieces(run->program);
  run->operands = shared->operands;
  run->arena = rank->arenas[rank->rank];
  run->input = call->scaled != NULL ? call->scaled : call->input;
  run->lane = (int32_t)gpu_block() / call->slices;
  run->slice = (int32_t)gpu_block() % call->slices;
  run->passes = 0;
  const gpu_counters_t *counters = gpu_arena_counters(run->arena);
  run->base = counters->base;
  run->number = counters->collectives;
  run->digest = gpu_mix(counters->history, call->identity);
}

GPU_FUNCTION void gpu_run_init(gpu_run_t *run, const gpu_call_t *call, gpu_shared_t *shared) {
  gpu_copy_words_to_shared(&shared->rank, call->rank, sizeof shared->rank);
  if (call->program_bytes <= sizeof shared->program) {
    gpu_copy_words_to_shared(shared->program, call->program, call->program_bytes);
  }
  gpu_barrier();
  if (gpu_thread() == 0) gpu_run_set(run, call, shared);
  gpu_barrier();
}

/* For all threads, none of which is in the pass before any more. False: that was the last one. */
GPU_LONG_FUNCTION bool gpu_start_pass(gpu_run_t *run) {
  gpu_barrier();
  if (gpu_thread() == 0) {
    gpu_set_pass(run, run->passes);
    if (run->passes > 0) run->base += run->program->stride;
    run->passes++;
  }
  gpu_barrier();
  return run->passes <= run->call->passes;
}

/* The call cannot go on. */
GPU_LONG_FUNCTION void gpu_abandon(const gpu_run_t *run) {
  if (gpu_thread() == 0) gpu_fail(run, GPU_FAILED_ABORTED, NULL);
}

/* It returns in several places, as the compiler would keep a register for whether to go on. */
GPU_FUNCTION void gpu_run_passes(gpu_run_t *run) {
  while (gpu_uniform(gpu_start_pass(run))) {
    if (!gpu_uniform(gpu_prepare_pass(run)) || !gpu_run_lane(run)) {
      gpu_abandon(run);
      return;
    }
    if (!gpu_uniform(gpu_end_pass(run))) {
      gpu_abandon(run);
      return;
    }
  }
}

/* The same holds for threads that would go on later. */
GPU_KERNEL gpu_run_kernel(GPU_ARGUMENT gpu_call_t call) {
  GPU_SHARED(gpu_shared_t, shared, 1);
  gpu_run_t *run = &shared->run;
  gpu_run_init(run, &call, shared);
  if (gpu_uniform(!gpu_begin_call(run))) {
    gpu_end_call(run);
    return;
  }
  gpu_run_passes(run);
  gpu_end_call(run);
}
