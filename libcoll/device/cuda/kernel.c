/*
 * The kernel: interprets a rank's program. All threads of a block take the same way through it.
 * Thread 0 waits for flags and stores them; barriers of the block order that with the data that all
 * threads move. After a wait that the abort word ended, the block returns.
 *
 * Lanes of a rank follow each other by their progress: in pass p, a lane stores base + p * stride +
 * 1 when the input is scaled, + 2 + s when step s is done, and base + (p + 1) * stride at the end
 * of the pass. Only what a lane may wait for is stored. All lanes end a pass before any begins the
 * next.
 */
#include "device/cuda/call.h"
#include "device/cuda/compute.h"

#ifndef __CUDACC__
_Thread_local gpu_virtual_thread_t gpu_virtual = {.blocks = 1, .threads = 1};
_Static_assert(GPU_OPERANDS_MAX * sizeof(char *) <= GPU_VIRTUAL_SHARED, "memory of a block");
#endif

enum { GPU_SCALED = 1, GPU_FIRST_STEP = 2 };

/* How `count` elements are cut into equal numbers of grains. */
typedef struct gpu_cut {
  size_t count, grain, whole, extra;
} gpu_cut_t;

typedef struct gpu_run {
  const gpu_call_t *call;
  const gpu_program_t *program;
  const gpu_room_t *room;
  const gpu_piece_t *pieces;
  const char **operands; /* shared by the threads of the block */
  char *arena;           /* of this rank */
  const char *input;     /* scaled, if the call asks for it */
  int32_t lane, slice;
  uint64_t base;    /* progress at the start of the pass */
  size_t first;     /* where the pass begins in an even block, in elements */
  size_t start;     /* the same, within the slice */
  gpu_cut_t window; /* what the pass covers of an even block, cut into parts */
} gpu_run_t;

typedef struct gpu_range {
  char *at;
  size_t bytes;
} gpu_range_t;

/* ---- where data is --------------------------------------------------------------------------*/

GPU_FUNCTION size_t gpu_min(size_t a, size_t b) {
  return a < b ? a : b;
}

GPU_FUNCTION gpu_cut_t gpu_cut(size_t count, size_t parts, size_t grain) {
  gpu_cut_t cut;
  size_t grains = (count + grain - 1) / grain;
  cut.count = count;
  cut.grain = grain;
  cut.whole = grains / parts;
  cut.extra = grains % parts;
  return cut;
}

/* As plan_part_offset. */
GPU_FUNCTION size_t gpu_cut_at(const gpu_cut_t *cut, size_t part) {
  return gpu_min((cut->whole * part + gpu_min(part, cut->extra)) * cut->grain, cut->count);
}

/* What the pass covers of a block of `count` elements: a part of the slice. Returns the number of
 * elements. */
GPU_LONG_FUNCTION size_t gpu_window(const gpu_run_t *run, size_t count, size_t *first) {
  const gpu_call_t *call = run->call;
  gpu_cut_t slices = gpu_cut(count, (size_t)call->slices, call->grain);
  size_t from = gpu_cut_at(&slices, (size_t)run->slice);
  size_t in_slice = gpu_cut_at(&slices, (size_t)run->slice + 1) - from;
  size_t start = gpu_min(run->start, in_slice);
  *first = from + start;
  return gpu_min(in_slice - start, call->pass_max);
}

GPU_FUNCTION void gpu_set_pass(gpu_run_t *run, uint32_t pass) {
  run->start = pass * run->call->pass_max;
  size_t count = gpu_window(run, run->call->count, &run->first);
  run->window = gpu_cut(count, (size_t)run->program->parts, run->call->grain);
}

/* The element of its buffer at which the block's window begins. */
GPU_FUNCTION size_t gpu_block_window(const gpu_run_t *run, int32_t base, int32_t block,
                                     gpu_cut_t *window) {
  const gpu_call_t *call = run->call;
  gpu_blocks_t blocks = base == GPU_BASE_INPUT ? call->input_blocks : call->output_blocks;
  *window = run->window;
  if (base >= GPU_BASE_SCRATCH) return (size_t)block * call->pass_max;
  if (blocks.counts == NULL) return (size_t)block * call->count + run->first;
  size_t first, count = gpu_window(run, blocks.counts[block], &first);
  *window = gpu_cut(count, (size_t)run->program->parts, call->grain);
  return blocks.offsets[block] + first;
}

GPU_FUNCTION char *gpu_base_address(const gpu_run_t *run, int32_t base) {
  if (base == GPU_BASE_INPUT) return (char *)(uintptr_t)run->input;
  if (base == GPU_BASE_OUTPUT) return run->call->output;
  char *arena = run->call->rank->arenas[base - GPU_BASE_SCRATCH];
  return gpu_arena_scratch(run->room, arena, run->slice);
}

GPU_LONG_FUNCTION gpu_range_t gpu_range_of(const gpu_run_t *run, const gpu_piece_t *piece) {
  gpu_range_t range = {NULL, 0};
  gpu_cut_t window;
  size_t begin = gpu_block_window(run, piece->base, piece->block, &window);
  size_t first = gpu_cut_at(&window, (size_t)piece->first);
  size_t elements = gpu_cut_at(&window, (size_t)piece->end) - first;
  if (elements == 0) return range;
  range.at = gpu_base_address(run, piece->base) + (begin + first) * run->call->element_bytes;
  range.bytes = elements * run->call->element_bytes;
  return range;
}

/* ---- flags ----------------------------------------------------------------------------------*/

/* Waits until the flag is at least `value`. False: the abort word is set. */
GPU_LONG_FUNCTION bool gpu_wait(const gpu_run_t *run, const uint64_t *flag, uint64_t value) {
  const gpu_rank_t *rank = run->call->rank;
  bool reached = true;
  if (gpu_thread() == 0) {
    uint32_t polls = 0;
    while (gpu_load_acquire(flag) < value) {
      if (++polls % GPU_ABORT_INTERVAL == 0 && gpu_load_relaxed(rank->abort) != 0) {
        reached = false;
        break;
      }
      gpu_pause();
    }
  }
  return gpu_barrier_all(reached);
}

/* Stores the flag behind all that the block has done, and the block's own counter, if any. */
GPU_FUNCTION void gpu_publish(uint64_t *flag, uint64_t value, uint64_t *counter) {
  gpu_barrier();
  if (gpu_thread() == 0) {
    gpu_delay();
    if (counter != NULL) *counter = value;
    gpu_store_release(flag, value);
  }
  gpu_barrier();
}

GPU_FUNCTION uint64_t *gpu_lane_progress(const gpu_run_t *run, int32_t lane) {
  return gpu_arena_progress(run->room, run->arena, lane, run->slice);
}

GPU_FUNCTION void gpu_advance(const gpu_run_t *run, uint64_t steps) {
  gpu_publish(gpu_lane_progress(run, run->lane), run->base + steps, NULL);
}

GPU_FUNCTION bool gpu_wait_for_lane(const gpu_run_t *run, int32_t lane, uint64_t steps) {
  return gpu_wait(run, gpu_lane_progress(run, lane), run->base + steps);
}

/* ---- actions --------------------------------------------------------------------------------*/

/* This rank's end of the FIFO, and the peer's. */
GPU_FUNCTION gpu_fifo_t *gpu_own_fifo(const gpu_run_t *run, const gpu_action_t *action) {
  return gpu_arena_fifo(run->room, run->arena, action->peer, action->channel, run->slice);
}
GPU_FUNCTION gpu_fifo_t *gpu_peer_fifo(const gpu_run_t *run, const gpu_action_t *action) {
  char *arena = run->call->rank->arenas[action->peer];
  return gpu_arena_fifo(run->room, arena, run->program->rank, action->channel, run->slice);
}

GPU_FUNCTION size_t gpu_message_bytes(const gpu_run_t *run, const gpu_action_t *action) {
  size_t bytes = 0;
  for (int32_t i = 0; i < action->piece_count; i++) {
    bytes += gpu_range_of(run, &run->pieces[action->pieces + (uint32_t)i]).bytes;
  }
  return bytes;
}

/* Both ends of a message of uneven blocks know its size, but not each other's number of passes, so
 * an empty one is not sent. In even calls it is, as it may order other accesses. */
GPU_FUNCTION bool gpu_is_left_out(const gpu_run_t *run, const gpu_action_t *action) {
  return run->call->input_blocks.counts != NULL && gpu_message_bytes(run, action) == 0;
}

/* Copies the pieces to or from the slot, without gaps. */
GPU_FUNCTION void gpu_move_message(const gpu_run_t *run, const gpu_action_t *action, char *slot,
                                   bool sends) {
  for (int32_t i = 0; i < action->piece_count; i++) {
    gpu_range_t range = gpu_range_of(run, &run->pieces[action->pieces + (uint32_t)i]);
    gpu_copy(sends ? slot : range.at, sends ? range.at : slot, range.bytes);
    slot += range.bytes;
  }
}

GPU_FUNCTION bool gpu_send(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action), *peer = gpu_peer_fifo(run, action);
  uint64_t number = own->own_sent, depth = (uint64_t)run->room->depth;
  if (gpu_is_left_out(run, action)) return true;
  if (number >= depth && !gpu_wait(run, &own->taken, number - depth + 1)) return false;
  char *arena = run->call->rank->arenas[action->peer];
  char *slot =
      gpu_arena_slot(run->room, arena, run->program->rank, action->channel, run->slice, number);
  gpu_move_message(run, action, slot, true);
  gpu_publish(&peer->sent, number + 1, &own->own_sent);
  return true;
}

GPU_FUNCTION bool gpu_recv(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action), *peer = gpu_peer_fifo(run, action);
  uint64_t number = own->own_taken;
  if (gpu_is_left_out(run, action)) return true;
  if (!gpu_wait(run, &own->sent, number + 1)) return false;
  char *slot =
      gpu_arena_slot(run->room, run->arena, action->peer, action->channel, run->slice, number);
  gpu_move_message(run, action, slot, false);
  gpu_publish(&peer->taken, number + 1, &own->own_taken);
  return true;
}

GPU_FUNCTION void gpu_signal(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action);
  gpu_publish(&gpu_peer_fifo(run, action)->signals, own->own_signals + 1, &own->own_signals);
}

GPU_FUNCTION bool gpu_wait_signal(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_fifo_t *own = gpu_own_fifo(run, action);
  uint64_t number = own->own_waits + 1;
  if (!gpu_wait(run, &own->signals, number)) return false;
  if (gpu_thread() == 0) own->own_waits = number;
  gpu_barrier();
  return true;
}

GPU_FUNCTION void gpu_copy_pieces(const gpu_run_t *run, const gpu_action_t *action) {
  for (int32_t i = 0; i < action->piece_count; i++) {
    const gpu_piece_t *piece = &run->pieces[action->pieces + 2 * (uint32_t)i];
    gpu_range_t dst = gpu_range_of(run, &piece[0]), src = gpu_range_of(run, &piece[1]);
    gpu_copy(dst.at, src.at, dst.bytes);
  }
}

/* The threads of the block look up one operand each. */
GPU_FUNCTION void gpu_reduce_pieces(const gpu_run_t *run, const gpu_action_t *action) {
  size_t sources = (size_t)action->operands - 1;
  for (int32_t i = 0; i < action->piece_count; i++) {
    const gpu_piece_t *piece = &run->pieces[action->pieces + (uint32_t)i * action->operands];
    gpu_range_t dst = gpu_range_of(run, piece);
    if (dst.bytes == 0) continue;
    gpu_barrier();
    GPU_EACH(k, sources) run->operands[k] = gpu_range_of(run, &piece[1 + k]).at;
    gpu_barrier();
    gpu_reduce(run->call->dtype, run->call->op, dst.at, run->operands, (int)sources,
               dst.bytes / run->call->element_bytes, run->call->element_bytes);
  }
}

/* What one step writes the next may read, by other threads of the block. */
GPU_FUNCTION bool gpu_act(const gpu_run_t *run, const gpu_action_t *action) {
  gpu_delay();
  switch (action->kind) {
    case GPU_COPY: gpu_copy_pieces(run, action); break;
    case GPU_REDUCE: gpu_reduce_pieces(run, action); break;
    case GPU_SEND: return gpu_send(run, action);
    case GPU_RECV: return gpu_recv(run, action);
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
GPU_FUNCTION void gpu_scale_input(const gpu_run_t *run) {
  const gpu_call_t *call = run->call;
  for (int32_t block = 0; block < run->program->input_blocks; block++) {
    gpu_cut_t window;
    size_t begin = gpu_block_window(run, GPU_BASE_INPUT, block, &window) * call->element_bytes;
    if (window.count == 0) continue;
    gpu_scale(call->dtype, call->scaled + begin, call->input + begin, window.count, &call->scalar);
  }
  gpu_barrier();
}

GPU_FUNCTION void gpu_divide_output(const gpu_run_t *run) {
  const gpu_call_t *call = run->call;
  for (int32_t block = 0; block < run->program->output_blocks; block++) {
    gpu_cut_t window;
    size_t begin = gpu_block_window(run, GPU_BASE_OUTPUT, block, &window) * call->element_bytes;
    if (window.count == 0) continue;
    gpu_divide(call->dtype, call->output + begin, window.count, call->divisor);
  }
  gpu_barrier();
}

/* Lane 0 scales for all lanes. */
GPU_FUNCTION bool gpu_prepare_input(const gpu_run_t *run) {
  bool several = run->program->lanes > 1;
  if (run->call->scaled == NULL) return true;
  if (run->lane != 0) return gpu_wait_for_lane(run, 0, GPU_SCALED);
  gpu_scale_input(run);
  if (several) gpu_advance(run, GPU_SCALED);
  return true;
}

/* Ends the pass with the other lanes. Lane 0 divides when they have ended, and ends then. */
GPU_FUNCTION bool gpu_end_pass(const gpu_run_t *run) {
  uint64_t end = run->program->stride;
  bool divides = run->call->divisor > 1 && run->lane == 0;
  if (run->program->lanes == 1) {
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

GPU_FUNCTION bool gpu_run_pass(const gpu_run_t *run) {
  const uint32_t *ends = gpu_program_lane_ends(run->program);
  const gpu_action_t *actions = gpu_program_actions(run->program);
  uint32_t begin = run->lane == 0 ? 0 : ends[run->lane - 1], end = ends[run->lane];
  if (!gpu_prepare_input(run)) return false;
  for (uint32_t i = begin; i < end; i++) {
    if (!gpu_act(run, &actions[i])) return false;
    if (actions[i].watched) gpu_advance(run, GPU_FIRST_STEP + (uint64_t)(i - begin));
  }
  return gpu_end_pass(run);
}

/* The last block of the launch counts the call. Every block has read the counters before. */
GPU_FUNCTION void gpu_end_call(const gpu_call_t *call, char *arena) {
  gpu_counters_t *counters = gpu_arena_counters(arena);
  gpu_barrier();
  if (gpu_thread() != 0 || gpu_increment(&counters->ended) + 1 < gpu_blocks()) return;
  counters->ended = 0;
  counters->calls++;
  counters->base += (uint64_t)call->passes * call->program->stride;
}

GPU_KERNEL gpu_run_kernel(GPU_ARGUMENT gpu_call_t call) {
  GPU_SHARED(const char *, operands, GPU_OPERANDS_MAX);
  const gpu_rank_t *rank = call.rank;
  gpu_run_t run;
  bool done = true;
  run.call = &call;
  run.program = call.program;
  run.room = &rank->room;
  run.pieces = gpu_program_pieces(call.program);
  run.operands = operands;
  run.arena = rank->arenas[rank->rank];
  run.input = call.scaled != NULL ? call.scaled : call.input;
  run.lane = (int32_t)gpu_block() / call.slices;
  run.slice = (int32_t)gpu_block() % call.slices;
  run.base = gpu_arena_counters(run.arena)->base;
  for (uint32_t pass = 0; done && pass < call.passes; pass++) {
    gpu_set_pass(&run, pass);
    done = gpu_run_pass(&run);
    run.base += call.program->stride;
  }
  if (!done && gpu_thread() == 0) gpu_store_relaxed(rank->failed, 1);
  gpu_end_call(&call, run.arena);
}
