/* From chunks to bytes: where a span of the plan lies in a pass of a call. */
#ifndef ENGINE_SPAN_H
#define ENGINE_SPAN_H

#include "engine/call.h"
#include "plan/plan.h"

/* The slice of every block that one pass handles: elements [first, first + count). */
typedef struct engine_pass {
  size_t first, count;
  size_t grain; /* chunk boundaries are multiples of it, in elements */
} engine_pass_t;

/* Contiguous elements of the span's buffer, from element `start` of it. */
typedef struct engine_piece {
  size_t start, elements;
} engine_piece_t;

typedef struct engine_place {
  const plan_t *plan;
  const engine_call_t *call;
  engine_pass_t pass;
} engine_place_t;

/* Contiguous pieces that the span consists of: one, or one per block that it crosses. */
int32_t engine_span_pieces(const engine_place_t *place, const plan_span_t *span);

/* Spans that the plan pairs have pieces of equal size when cut per block; piece `index` of `pieces`
 * (1, or the blocks crossed). */
int32_t engine_span_blocks(const engine_place_t *place, const plan_span_t *span);
engine_piece_t engine_span_piece(const engine_place_t *place, const plan_span_t *span,
                                 int32_t pieces, int32_t index);

#endif
