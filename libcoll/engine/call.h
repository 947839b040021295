/* One call of a collective or point-to-point function, as the engine sees it: buffers, counts,
 * dtype, op and identity. */
#ifndef ENGINE_CALL_H
#define ENGINE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "flight/call.h"

/* Blocks of different sizes (alltoallv): count and offset of each of `size` blocks, in elements. */
typedef struct engine_blocks {
  const size_t *counts, *offsets;
} engine_blocks_t;

typedef struct engine_call {
  const void *input; /* this rank's; not accessed where the collective gives it none */
  void *output;
  size_t count; /* elements of a block; with uneven blocks, of this rank's largest block */
  engine_blocks_t input_blocks; /* counts NULL: contiguous blocks of `count` elements */
  engine_blocks_t output_blocks;
  coll_dtype_t dtype;
  coll_op_t op; /* builtin */
  size_t element_bytes;
  flight_call_t id;    /* identity, as sent in messages and signals */
  uint64_t history;    /* for collectives: the offset of id.count */
  int channel;         /* lane l of the plan runs over this channel + l */
  bool count_per_pair; /* counts are known only to pairs of ranks: every pair exchanges a message
                          with its count, even if it is 0 */
  bool takes_turns;    /* with other calls of its rank: engine_run_advance ends with a pass */
} engine_call_t;

/* Whether the blocks of the call differ in size. */
static inline bool engine_call_is_uneven(const engine_call_t *call) {
  return call->input_blocks.counts != NULL;
}

#endif
