/*
 * In each pass, a block's slice is cut into `parts` chunks. INPUT and OUTPUT hold whole blocks, so
 * slices of adjacent blocks are not contiguous unless the pass covers whole blocks. SCRATCH holds
 * slices without gaps, but for uneven blocks, of which each has the room of the largest.
 */
#include "engine/span.h"

/* Counts NULL: not of sizes of their own. */
static engine_blocks_t blocks_of(const engine_layout_t *layout, plan_buffer_t buffer) {
  const engine_call_t *call = layout->call;
  if (call->ranks.counts != NULL) return call->ranks;
  if (buffer == PLAN_SCRATCH) return (engine_blocks_t){0};
  return buffer == PLAN_INPUT ? call->input_blocks : call->output_blocks;
}

static bool is_uneven(const engine_layout_t *layout, plan_buffer_t buffer) {
  return blocks_of(layout, buffer).counts != NULL;
}

/* Where a block of its own size begins in its INPUT or OUTPUT; index: into the arrays. */
static size_t offset_of(const engine_layout_t *layout, plan_buffer_t buffer, int32_t index) {
  coll_collective_t collective = layout->plan->shape.collective;
  bool is_alone =
      layout->call->ranks.counts != NULL && plan_blocks_of(collective, buffer) == PLAN_BLOCKS_ONE;
  return is_alone ? 0 : blocks_of(layout, buffer).offsets[index];
}

/* Returns the number of elements of the block's slice. *start: where the slice starts in the
 * buffer. */
static size_t slice(const engine_layout_t *layout, const plan_span_t *span, int32_t block,
                    size_t *start) {
  const engine_pass_t *pass = &layout->pass;
  const engine_call_t *call = layout->call;
  bool in_scratch = span->buffer == PLAN_SCRATCH;
  if (!is_uneven(layout, span->buffer)) {
    *start = in_scratch ? (size_t)block * pass->count : (size_t)block * call->count + pass->first;
    return pass->count;
  }
  int32_t index = call->ranks.counts == NULL
                      ? block
                      : plan_block_owner(layout->plan, span->rank, span->buffer, block);
  size_t count = blocks_of(layout, span->buffer).counts[index];
  size_t first = pass->first < count ? pass->first : count;
  *start =
      in_scratch ? (size_t)block * pass->count : offset_of(layout, span->buffer, index) + first;
  return count - first < pass->count ? count - first : pass->count;
}

int32_t engine_span_blocks(const engine_layout_t *layout, const plan_span_t *span) {
  int32_t parts = layout->plan->parts;
  return (span->first + span->count - 1) / parts - span->first / parts + 1;
}

bool engine_span_splits(const engine_layout_t *layout, plan_buffer_t buffer) {
  bool covers_blocks = layout->pass.count == layout->call->count;
  return is_uneven(layout, buffer) || (buffer != PLAN_SCRATCH && !covers_blocks);
}

int32_t engine_span_pieces(const engine_layout_t *layout, const plan_span_t *span) {
  if (span->count == 1) return 1;
  return engine_span_splits(layout, span->buffer) ? engine_span_blocks(layout, span) : 1;
}

/* The elements of chunks [first, first + count), which must be contiguous. */
static engine_piece_t stretch(const engine_layout_t *layout, const plan_span_t *span, int32_t first,
                              int32_t count) {
  int32_t parts = layout->plan->parts, last = first + count; /* one past */
  size_t start, end_start;
  size_t slice_count = slice(layout, span, first / parts, &start);
  start += plan_part_offset(slice_count, parts, first % parts, layout->pass.grain);
  size_t end_slice = slice(layout, span, (last - 1) / parts, &end_start);
  end_start += plan_part_offset(end_slice, parts, (last - 1) % parts + 1, layout->pass.grain);
  return (engine_piece_t){.start = start, .elements = end_start - start};
}

engine_piece_t engine_span_piece(const engine_layout_t *layout, const plan_span_t *span,
                                 int32_t pieces, int32_t index) {
  if (pieces == 1) return stretch(layout, span, span->first, span->count);
  int32_t parts = layout->plan->parts;
  int32_t block = span->first / parts + index;
  int32_t first = block * parts, last = first + parts;
  if (first < span->first) first = span->first;
  if (last > span->first + span->count) last = span->first + span->count;
  return stretch(layout, span, first, last - first);
}
