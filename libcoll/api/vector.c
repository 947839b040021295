/*
 * Collectives in which each rank's block has a size of its own, and all ranks pass the sizes of all
 * blocks. A call whose blocks are of equal size and packed is like one of the collective of equal
 * blocks, and has that collective's plan.
 */
#include "api/collective.h"

typedef struct blocks {
  const size_t *counts, *displs; /* displs NULL: packed */
} blocks_t;

static coll_status_t check(api_request_t *request, blocks_t blocks) {
  const size_t *counts = blocks.counts, *displs = blocks.displs;
  int size = request->comm->size;
  size_t unused;
  request->count = api_measure_blocks(counts, displs, size, &request->traits.blocks);
  if (request->traits.blocks == COMM_BLOCKS_EVEN) return api_check_collective(request);
  COLL_TRY(api_check_arguments(request, &unused));
  COLL_TRY(api_copy_blocks(request, 0, counts, displs));
  return api_check_blocks(request, request->blocks, request->blocks + size);
}

BASE_APART static coll_status_t submit_checked(api_request_t request, blocks_t blocks,
                                               coll_stream_t stream) {
  coll_status_t status = comm_check(request.comm);
  if (status == COLL_OK && blocks.counts == NULL) {
    status = api_fail(request.comm, request.verb, API_NO_COUNTS);
  }
  if (status == COLL_OK) status = check(&request, blocks);
  const run_call_t call = api_call(&request);
  return api_submit(status, &call, stream);
}

BASE_INLINE coll_status_t submit(coll_collective_t which, const char *verb, const void *send,
                                 void *recv, blocks_t blocks, coll_dtype_t dtype, coll_op_t op,
                                 coll_comm_t comm, coll_stream_t stream) {
  if (comm_is_live(comm) && blocks.counts != NULL &&
      api_blocks_are_even(blocks.counts, blocks.displs, comm->size, blocks.counts[0])) {
    return api_collective(which, verb, send, recv, blocks.counts[0], dtype, op, 0, comm, stream,
                          true);
  }
  return submit_checked(api_request_make(which, verb, send, recv, 0, dtype, op, 0, comm), blocks,
                        stream);
}

coll_status_t coll_allgatherv(const void *send, void *recv, const size_t counts[],
                              const size_t displs[], coll_dtype_t dtype, coll_comm_t comm,
                              coll_stream_t stream) {
  return submit(COLL_ALLGATHERV, "allgatherv", send, recv, (blocks_t){counts, displs}, dtype,
                COLL_SUM, comm, stream);
}

coll_status_t coll_reduce_scatterv(const void *send, void *recv, const size_t counts[],
                                   coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                                   coll_stream_t stream) {
  return submit(COLL_REDUCE_SCATTERV, "reduce_scatterv", send, recv, (blocks_t){counts, NULL},
                dtype, op, comm, stream);
}
