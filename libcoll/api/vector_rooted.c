/*
 * Gather and scatter of blocks whose sizes the root knows, and each rank its own. The plan is the
 * same for all sizes. Where a rank's blocks are of equal size and packed, as the only block of
 * ranks other than the root is, its call may take the fast path.
 */
#include "api/collective.h"

/* What the root alone passes. */
typedef struct root_blocks {
  const size_t *counts, *displs; /* displs NULL: packed */
} root_blocks_t;

static bool is_root(const api_request_t *request) {
  return request->comm->rank == request->traits.root;
}

/* At the root, of blocks that are not of equal size and packed. */
static coll_status_t check_uneven(api_request_t *request, root_blocks_t blocks, size_t largest) {
  size_t own = request->count, unused;
  request->count = largest;
  request->traits.blocks = COMM_BLOCKS_UNEVEN;
  COLL_TRY(api_check_arguments(request, &unused));
  COLL_TRY(api_copy_blocks(request, 2, blocks.counts, blocks.displs));
  request->blocks[0] = own;
  request->blocks[1] = 0;
  const size_t *counts = request->blocks + 2;
  return api_check_blocks(request, counts, counts + request->comm->size);
}

/* request->count: of this rank's block. */
static coll_status_t check(api_request_t *request, root_blocks_t blocks) {
  const struct coll_comm *comm = request->comm;
  comm_blocks_t how;
  COLL_TRY(comm_check(request->comm));
  if (!is_root(request)) return api_check_collective(request);
  if (blocks.counts == NULL) return api_fail(comm, request->verb, API_NO_COUNTS);
  if (blocks.counts[comm->rank] != request->count) {
    return api_fail(comm, request->verb, API_SELF_DIFFERS);
  }
  size_t largest = api_measure_blocks(blocks.counts, blocks.displs, comm->size, &how);
  return how == COMM_BLOCKS_EVEN ? api_check_collective(request)
                                 : check_uneven(request, blocks, largest);
}

BASE_APART static coll_status_t submit_checked(api_request_t request, root_blocks_t blocks,
                                               coll_stream_t stream) {
  coll_status_t status = check(&request, blocks);
  const run_call_t call = api_call(&request);
  return api_submit(status, &call, stream);
}

/* Whether the call is like one of blocks of `count` elements without gaps. */
BASE_INLINE bool is_even(const struct coll_comm *comm, int root, size_t count,
                         root_blocks_t blocks) {
  return comm->rank != root || api_blocks_are_even(blocks.counts, blocks.displs, comm->size, count);
}

BASE_INLINE coll_status_t submit(coll_collective_t which, const char *verb, const void *send,
                                 void *recv, size_t count, root_blocks_t blocks, coll_dtype_t dtype,
                                 int root, coll_comm_t comm, coll_stream_t stream) {
  if (comm_is_live(comm) && is_even(comm, root, count, blocks)) {
    return api_collective(which, verb, send, recv, count, dtype, COLL_SUM, root, comm, stream,
                          true);
  }
  return submit_checked(
      api_request_make(which, verb, send, recv, count, dtype, COLL_SUM, root, comm), blocks,
      stream);
}

coll_status_t coll_gatherv(const void *send, size_t send_count, void *recv,
                           const size_t recv_counts[], const size_t recv_displs[],
                           coll_dtype_t dtype, int root, coll_comm_t comm, coll_stream_t stream) {
  return submit(COLL_GATHERV, "gatherv", send, recv, send_count,
                (root_blocks_t){recv_counts, recv_displs}, dtype, root, comm, stream);
}

coll_status_t coll_scatterv(const void *send, const size_t send_counts[],
                            const size_t send_displs[], void *recv, size_t recv_count,
                            coll_dtype_t dtype, int root, coll_comm_t comm, coll_stream_t stream) {
  return submit(COLL_SCATTERV, "scatterv", send, recv, recv_count,
                (root_blocks_t){send_counts, send_displs}, dtype, root, comm, stream);
}
