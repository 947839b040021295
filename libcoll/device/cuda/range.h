/* Where the data of a piece is in the current pass. */
#ifndef DEVICE_CUDA_RANGE_H
#define DEVICE_CUDA_RANGE_H

#include "device/cuda/run.h"

typedef struct gpu_range {
  char *at;
  size_t bytes;
} gpu_range_t;

GPU_FUNCTION size_t gpu_min(size_t a, size_t b) {
  return a < b ? a : b;
}

GPU_FUNCTION gpu_cut_t gpu_cut(size_t count, size_t parts, size_t grain) {
  gpu_cut_t cut;
  size_t grains = gpu_quotient(count + grain - 1, grain);
  cut.count = count;
  cut.grain = grain;
  cut.whole = gpu_quotient(grains, parts);
  cut.extra = grains - cut.whole * parts;
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

/* Whether it is INPUT or OUTPUT of a peer: the same blocks as this rank's, which are even, as plans
 * that reach peers' buffers have no uneven ones. */
GPU_FUNCTION bool gpu_is_of_peer(const gpu_run_t *run, int32_t base) {
  return base >= GPU_BASE_SCRATCH + run->program->size;
}

/* Elements of the piece's block of a message, of all slices and passes; 0 of SCRATCH. */
GPU_FUNCTION size_t gpu_block_count(const gpu_run_t *run, const gpu_piece_t *piece) {
  const gpu_call_t *call = run->call;
  if (piece->base >= GPU_BASE_SCRATCH) return 0;
  gpu_blocks_t blocks = piece->base == GPU_BASE_INPUT ? call->input_blocks : call->output_blocks;
  return blocks.counts != NULL ? blocks.counts[piece->block] : call->count;
}

/* The element of its buffer at which the block's window begins. */
GPU_FUNCTION size_t gpu_block_window(const gpu_run_t *run, int32_t base, int32_t block,
                                     gpu_cut_t *window) {
  const gpu_call_t *call = run->call;
  gpu_blocks_t blocks = base == GPU_BASE_INPUT ? call->input_blocks : call->output_blocks;
  *window = run->window;
  if (base >= GPU_BASE_SCRATCH && !gpu_is_of_peer(run, base)) {
    return (size_t)block * call->pass_max;
  }
  if (blocks.counts == NULL) return (size_t)block * call->count + run->first;
  size_t first, count = gpu_window(run, blocks.counts[block], &first);
  *window = gpu_cut(count, (size_t)run->program->parts, call->grain);
  return blocks.offsets[block] + first;
}

GPU_FUNCTION uintptr_t gpu_part_address(const gpu_parts_t *parts, int32_t rank) {
  return (uintptr_t)parts->at[rank] + parts->offset + (size_t)rank * parts->stride;
}

/* A number, as the blocks of an exchange are relative to address 0. */
GPU_FUNCTION uintptr_t gpu_base_address(const gpu_run_t *run, int32_t base) {
  const gpu_call_t *call = run->call;
  int32_t size = run->program->size, rank = base - GPU_BASE_SCRATCH;
  if (base == GPU_BASE_INPUT) return (uintptr_t)run->input;
  if (base == GPU_BASE_OUTPUT) return (uintptr_t)call->output;
  if (rank >= 2 * size) return gpu_part_address(&call->output_parts, rank - 2 * size);
  if (rank >= size) return gpu_part_address(&call->input_parts, rank - size);
  return (uintptr_t)gpu_arena_scratch(run->room, run->rank->arenas[rank], run->slice, call->slices);
}

GPU_LONG_FUNCTION gpu_range_t gpu_range_of(const gpu_run_t *run, const gpu_piece_t *piece) {
  gpu_range_t range = {NULL, 0};
  gpu_cut_t window;
  size_t begin = gpu_block_window(run, piece->base, piece->block, &window);
  size_t first = gpu_cut_at(&window, (size_t)piece->first);
  size_t elements = gpu_cut_at(&window, (size_t)piece->end) - first;
  if (elements == 0) return range;
  size_t offset = (begin + first) * run->call->element_bytes;
  range.at = (char *)(gpu_base_address(run, piece->base) + offset);
  range.bytes = elements * run->call->element_bytes;
  return range;
}

/* The lanes of an exchange carry out an action with all its data, in windows of the same size,
 * before the next one: the peer may have it in a group of other messages. False: it is done. */
GPU_FUNCTION bool gpu_next_window(gpu_run_t *run, const gpu_action_t *action) {
  if (!run->program->independent) return false;
  run->start += run->call->pass_max;
  if (gpu_range_of(run, &run->pieces[action->pieces]).bytes > 0) return true;
  run->start = 0;
  return false;
}

#endif
