/* The arrays of a call, and freeing what it owns. */
#include "run/call.h"

#include <stdlib.h>

#include "run/coalesce.h"

void run_call_blocks(const run_call_t *call, engine_blocks_t *input, engine_blocks_t *output) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  const size_t *blocks = call->blocks;
  size_t size = (size_t)call->comm->size;
  if (traits.collective == COLL_ALLTOALLV) {
    *input = (engine_blocks_t){blocks, blocks + size};
    *output = (engine_blocks_t){blocks + 2 * size, blocks + 3 * size};
    return;
  }
  const engine_blocks_t own = {blocks, blocks + 1}, all = {blocks + 2, blocks + 2 + size};
  *input = traits.collective == COLL_GATHERV ? own : all;
  *output = traits.collective == COLL_GATHERV ? all : own;
}

void run_call_free_owned(const run_call_t *call) {
  if (call->coalesced != NULL) free(call->coalesced->memory);
  free(call->coalesced);
  free(call->blocks);
}
