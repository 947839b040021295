/* One call of a collective or point-to-point function, as the engine sees it: buffers, counts,
 * dtype, op and identity. */
#ifndef ENGINE_CALL_H
#define ENGINE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "flight/call.h"

/* Blocks of different sizes: count and offset of each of a buffer's blocks, in elements. */
typedef struct engine_blocks {
  const size_t *counts, *offsets;
} engine_blocks_t;

typedef struct engine_call {
  const void *input; /* this rank's; not accessed where the collective gives it none */
  void *output;
  size_t count; /* elements of a block; with uneven blocks, of this rank's largest block */
  /* If all counts are NULL, blocks are contiguous and of `count` elements. */
  engine_blocks_t input_blocks, output_blocks; /* sizes that pairs of ranks know */
  engine_blocks_t ranks; /* of each rank, the block in a vector collective (plan.h); all ranks have
                            the same counts; if a peer's buffers are accessed, the same offsets */
  bool has_gaps;         /* blocks are not packed, so peers do not know this rank's offsets */
  coll_dtype_t dtype;
  coll_op_t op; /* builtin */
  size_t element_bytes;
  flight_call_t id;    /* identity, as sent in messages and signals */
  uint64_t history;    /* for collectives: the offset of id.count */
  int channel;         /* lane l of the plan runs over this channel + l */
  bool count_per_pair; /* counts are known only to pairs of ranks: every pair exchanges a message
                          with its count, even if it is 0 */
  size_t slot_bytes;   /* the largest message between the two ranks of a send or receive; 0: that of
                          the world's room */
  size_t pair_count;   /* then, where this rank's blocks are all of `count` elements: that; it is
                          added to id.count. Else 0 */
  bool takes_turns;    /* with other calls of its rank: engine_run_advance ends with a pass */
} engine_call_t;

/* Whether only a pair of ranks knows the size of a block. */
static inline bool engine_call_is_by_pair(const engine_call_t *call) {
  return call->input_blocks.counts != NULL || call->output_blocks.counts != NULL;
}

/* Whether the blocks of the call differ in size, or may have gaps between them. */
static inline bool engine_call_is_uneven(const engine_call_t *call) {
  return call->ranks.counts != NULL || engine_call_is_by_pair(call);
}

#endif
