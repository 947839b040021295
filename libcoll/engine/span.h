/* Converts chunks to elements: where a span of the plan lies in the buffers in one pass of a
 * call. */
#ifndef ENGINE_SPAN_H
#define ENGINE_SPAN_H

#include "engine/call.h"
#include "plan/plan.h"

/* The slice of every block that one pass handles: elements [first, first + count). */
typedef struct engine_pass {
  size_t first, count;
  size_t grain; /* chunk boundaries are multiples of it, in elements */
} engine_pass_t;

/* A contiguous run of elements of the span's buffer, starting at element `start`. */
typedef struct engine_piece {
  size_t start, elements;
} engine_piece_t;

/* What determines the position of chunks. */
typedef struct engine_layout {
  const plan_t *plan;
  const engine_call_t *call;
  engine_pass_t pass;
} engine_layout_t;

/* The number of contiguous pieces of the span: one, or one per block that it crosses. */
int32_t engine_span_pieces(const engine_layout_t *layout, const plan_span_t *span);

/* Whether the buffer's chunks of different blocks do not lie side by side in this pass. */
bool engine_span_splits(const engine_layout_t *layout, plan_buffer_t buffer);

/* engine_span_blocks: the number of blocks that the span crosses. engine_span_piece: piece `index`
 * of `pieces` (1, or the blocks crossed). Spans that a step pairs have pieces of equal size when
 * cut per block. */
int32_t engine_span_blocks(const engine_layout_t *layout, const plan_span_t *span);
engine_piece_t engine_span_piece(const engine_layout_t *layout, const plan_span_t *span,
                                 int32_t pieces, int32_t index);

#endif
