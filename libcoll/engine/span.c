/*
 * A block's slice in this pass is cut into `parts` chunks. INPUT and OUTPUT hold whole blocks, so
 * slices of neighbouring blocks lie apart unless the pass takes whole blocks; SCRATCH holds slices
 * end to end.
 */
#include "engine/span.h"

static const engine_blocks_t *blocks_of(const engine_place_t *place, plan_buffer_t buffer) {
  return buffer == PLAN_INPUT ? &place->call->input_blocks : &place->call->output_blocks;
}

static bool is_uneven(const engine_place_t *place, plan_buffer_t buffer) {
  return buffer != PLAN_SCRATCH && blocks_of(place, buffer)->counts != NULL;
}

/* Elements of the block's slice, and where the slice starts in its buffer. */
static size_t slice(const engine_place_t *place, plan_buffer_t buffer, int32_t block,
                    size_t *start) {
  const engine_pass_t *pass = &place->pass;
  if (buffer == PLAN_SCRATCH) {
    *start = (size_t)block * pass->count;
    return pass->count;
  }
  if (!is_uneven(place, buffer)) {
    *start = (size_t)block * place->call->count + pass->first;
    return pass->count;
  }
  const engine_blocks_t *blocks = blocks_of(place, buffer);
  size_t count = blocks->counts[block];
  size_t first = pass->first < count ? pass->first : count;
  *start = blocks->offsets[block] + first;
  return count - first < pass->count ? count - first : pass->count;
}

int32_t engine_span_blocks(const engine_place_t *place, const plan_span_t *span) {
  int32_t parts = place->plan->parts;
  return (span->first + span->count - 1) / parts - span->first / parts + 1;
}

int32_t engine_span_pieces(const engine_place_t *place, const plan_span_t *span) {
  if (span->count == 1) return 1;
  bool end_to_end = span->buffer == PLAN_SCRATCH ||
                    (place->pass.count == place->call->count && !is_uneven(place, span->buffer));
  return end_to_end ? 1 : engine_span_blocks(place, span);
}

/* Chunks [first, first + count) as if they were end to end. */
static engine_piece_t stretch(const engine_place_t *place, const plan_span_t *span, int32_t first,
                              int32_t count) {
  int32_t parts = place->plan->parts, last = first + count; /* one past */
  size_t start, end_start;
  size_t slice_count = slice(place, span->buffer, first / parts, &start);
  start += plan_part_offset(slice_count, parts, first % parts, place->pass.grain);
  size_t end_slice = slice(place, span->buffer, (last - 1) / parts, &end_start);
  end_start += plan_part_offset(end_slice, parts, (last - 1) % parts + 1, place->pass.grain);
  return (engine_piece_t){.start = start, .elements = end_start - start};
}

engine_piece_t engine_span_piece(const engine_place_t *place, const plan_span_t *span,
                                 int32_t pieces, int32_t index) {
  if (pieces == 1) return stretch(place, span, span->first, span->count);
  int32_t parts = place->plan->parts;
  int32_t block = span->first / parts + index;
  int32_t first = block * parts, last = first + parts;
  if (first < span->first) first = span->first;
  if (last > span->first + span->count) last = span->first + span->count;
  return stretch(place, span, first, last - first);
}
