/*
 * In each pass, a block's slice is cut into `parts` chunks. INPUT and OUTPUT hold whole blocks, so
 * slices of adjacent blocks are not contiguous unless the pass covers whole blocks. SCRATCH holds
 * slices without gaps.
 */
#include "engine/span.h"

static const engine_blocks_t *blocks_of(const engine_layout_t *layout, plan_buffer_t buffer) {
  return buffer == PLAN_INPUT ? &layout->call->input_blocks : &layout->call->output_blocks;
}

static bool is_uneven(const engine_layout_t *layout, plan_buffer_t buffer) {
  return buffer != PLAN_SCRATCH && blocks_of(layout, buffer)->counts != NULL;
}

/* Returns the number of elements of the block's slice. *start: where the slice starts in its
 * buffer. */
static size_t slice(const engine_layout_t *layout, plan_buffer_t buffer, int32_t block,
                    size_t *start) {
  const engine_pass_t *pass = &layout->pass;
  if (buffer == PLAN_SCRATCH) {
    *start = (size_t)block * pass->count;
    return pass->count;
  }
  if (!is_uneven(layout, buffer)) {
    *start = (size_t)block * layout->call->count + pass->first;
    return pass->count;
  }
  const engine_blocks_t *blocks = blocks_of(layout, buffer);
  size_t count = blocks->counts[block];
  size_t first = pass->first < count ? pass->first : count;
  *start = blocks->offsets[block] + first;
  return count - first < pass->count ? count - first : pass->count;
}

int32_t engine_span_blocks(const engine_layout_t *layout, const plan_span_t *span) {
  int32_t parts = layout->plan->parts;
  return (span->first + span->count - 1) / parts - span->first / parts + 1;
}

int32_t engine_span_pieces(const engine_layout_t *layout, const plan_span_t *span) {
  if (span->count == 1) return 1;
  bool end_to_end = span->buffer == PLAN_SCRATCH ||
                    (layout->pass.count == layout->call->count && !is_uneven(layout, span->buffer));
  return end_to_end ? 1 : engine_span_blocks(layout, span);
}

/* The elements of chunks [first, first + count), which must be contiguous. */
static engine_piece_t stretch(const engine_layout_t *layout, const plan_span_t *span, int32_t first,
                              int32_t count) {
  int32_t parts = layout->plan->parts, last = first + count; /* one past */
  size_t start, end_start;
  size_t slice_count = slice(layout, span->buffer, first / parts, &start);
  start += plan_part_offset(slice_count, parts, first % parts, layout->pass.grain);
  size_t end_slice = slice(layout, span->buffer, (last - 1) / parts, &end_start);
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
