/*
 * Collectives in which each rank's block has a size of its own, and all ranks pass the sizes of all
 * blocks. A call whose blocks are of equal size and packed is like one of the collective of equal
 * blocks; it may take the fast path, and has that collective's plan.
 */
#include "api/check.h"
#include "api/fastpath.h"
#include "api/submit.h"

/* The slow path. */
BASE_APART static coll_status_t submit_checked(api_request_t request, const size_t counts[],
                                               const size_t displs[], coll_stream_t stream) {
  size_t unused;
  coll_status_t status = comm_check(request.comm);
  if (status == COLL_OK && counts == NULL) {
    status = api_fail(request.comm, request.verb, API_NO_COUNTS);
  }
  if (status == COLL_OK) {
    request.count = api_measure_blocks(counts, displs, request.comm->size, &request.traits.blocks);
    if (request.traits.blocks == COMM_BLOCKS_EVEN) {
      status = api_check_collective(&request);
    } else {
      status = api_check_arguments(&request, &unused);
      if (status == COLL_OK) status = api_copy_blocks(&request, 0, counts, displs);
      if (status == COLL_OK) {
        status = api_check_blocks(&request, request.blocks, request.blocks + request.comm->size);
      }
    }
  }
  const run_call_t call = api_call(&request);
  return api_submit(status, &call, stream);
}

BASE_INLINE coll_status_t run_vector(api_request_t request, const size_t counts[],
                                     const size_t displs[], coll_stream_t stream) {
  if (api_runs_at_once(stream) && counts != NULL && comm_is_live(request.comm)) {
    comm_blocks_t blocks;
    request.count = api_measure_blocks(counts, displs, request.comm->size, &blocks);
    comm_cache_entry_t *entry = NULL;
    if (blocks == COMM_BLOCKS_EVEN) entry = api_fastpath_lookup(&request);
    if (entry != NULL) return run_fastpath_run(request.comm, entry, request.send, request.recv);
  }
  return submit_checked(request, counts, displs, stream);
}

coll_status_t coll_allgatherv(const void *send, void *recv, const size_t counts[],
                              const size_t displs[], coll_dtype_t dtype, coll_comm_t comm,
                              coll_stream_t stream) {
  const api_request_t request = {
      .verb = "allgatherv",
      .kind = RUN_COLLECTIVE,
      .comm = comm,
      .traits = {.collective = COLL_ALLGATHERV, .dtype = dtype, .reach = PLAN_REACH_USER},
      .send = send,
      .recv = recv};
  return run_vector(request, counts, displs, stream);
}

coll_status_t coll_reduce_scatterv(const void *send, void *recv, const size_t counts[],
                                   coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                                   coll_stream_t stream) {
  const api_request_t request = {.verb = "reduce_scatterv",
                                 .kind = RUN_COLLECTIVE,
                                 .comm = comm,
                                 .traits = {.collective = COLL_REDUCE_SCATTERV,
                                            .dtype = dtype,
                                            .op = op,
                                            .reach = PLAN_REACH_USER},
                                 .send = send,
                                 .recv = recv};
  return run_vector(request, counts, NULL, stream);
}
