/*
 * A collective whose blocks are of equal size and packed, from its arguments to its execution: on
 * the fast path, or checked and submitted.
 */
#ifndef API_COLLECTIVE_H
#define API_COLLECTIVE_H

#include "api/fastpath.h"
#include "api/submit.h"

BASE_INLINE api_request_t api_request_make(coll_collective_t which, const char *verb,
                                           const void *send, void *recv, size_t count,
                                           coll_dtype_t dtype, coll_op_t op, int root,
                                           coll_comm_t comm) {
  return (api_request_t){.verb = verb,
                         .kind = RUN_COLLECTIVE,
                         .comm = comm,
                         .traits = {.collective = which,
                                    .dtype = dtype,
                                    .op = op,
                                    .root = root,
                                    .reach = PLAN_REACH_USER},
                         .count = count,
                         .send = send,
                         .recv = recv};
}

/* The slow path. It is not inlined, so that the fast path needs less stack and fewer registers. */
coll_status_t api_collective_submit(coll_collective_t which, const char *verb, const void *send,
                                    void *recv, size_t count, coll_dtype_t dtype, coll_op_t op,
                                    int root, coll_comm_t comm, coll_stream_t stream);

/* is_live: whether the communicator is, which a caller may know already. */
BASE_INLINE coll_status_t api_collective(coll_collective_t which, const char *verb,
                                         const void *send, void *recv, size_t count,
                                         coll_dtype_t dtype, coll_op_t op, int root,
                                         coll_comm_t comm, coll_stream_t stream, bool is_live) {
  if (api_runs_at_once(stream) && (is_live || comm_is_live(comm))) {
    const api_request_t request =
        api_request_make(which, verb, send, recv, count, dtype, op, root, comm);
    comm_cache_entry_t *entry = api_fastpath_lookup(&request);
    if (entry != NULL) return run_fastpath_run(comm, entry, send, recv);
  }
  return api_collective_submit(which, verb, send, recv, count, dtype, op, root, comm, stream);
}

#endif
