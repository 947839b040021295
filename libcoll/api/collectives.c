/*
 * The communication functions of coll.h. Each makes a request, which takes the fast path, or is
 * checked and submitted.
 */
#include "api/collective.h"

coll_status_t api_collective_submit(coll_collective_t which, const char *verb, const void *send,
                                    void *recv, size_t count, coll_dtype_t dtype, coll_op_t op,
                                    int root, coll_comm_t comm, coll_stream_t stream) {
  api_request_t request = api_request_make(which, verb, send, recv, count, dtype, op, root, comm);
  coll_status_t status = api_check_collective(&request);
  const run_call_t call = api_call(&request);
  return api_submit(status, &call, stream);
}

BASE_INLINE coll_status_t collective(coll_collective_t which, const char *verb, const void *send,
                                     void *recv, size_t count, coll_dtype_t dtype, coll_op_t op,
                                     int root, coll_comm_t comm, coll_stream_t stream) {
  return api_collective(which, verb, send, recv, count, dtype, op, root, comm, stream, false);
}

coll_status_t coll_allreduce(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                             coll_op_t op, coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_ALLREDUCE, "allreduce", send, recv, count, dtype, op, 0, comm, stream);
}

coll_status_t coll_reduce(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                          coll_op_t op, int root, coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_REDUCE, "reduce", send, recv, count, dtype, op, root, comm, stream);
}

coll_status_t coll_reduce_scatter(const void *send, void *recv, size_t recv_count,
                                  coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                                  coll_stream_t stream) {
  return collective(COLL_REDUCE_SCATTER, "reduce_scatter", send, recv, recv_count, dtype, op, 0,
                    comm, stream);
}

coll_status_t coll_allgather(const void *send, void *recv, size_t send_count, coll_dtype_t dtype,
                             coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_ALLGATHER, "allgather", send, recv, send_count, dtype, COLL_SUM, 0, comm,
                    stream);
}

coll_status_t coll_broadcast(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                             int root, coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_BROADCAST, "broadcast", send, recv, count, dtype, COLL_SUM, root, comm,
                    stream);
}

coll_status_t coll_gather(const void *send, void *recv, size_t send_count, coll_dtype_t dtype,
                          int root, coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_GATHER, "gather", send, recv, send_count, dtype, COLL_SUM, root, comm,
                    stream);
}

coll_status_t coll_scatter(const void *send, void *recv, size_t recv_count, coll_dtype_t dtype,
                           int root, coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_SCATTER, "scatter", send, recv, recv_count, dtype, COLL_SUM, root, comm,
                    stream);
}

coll_status_t coll_alltoall(const void *send, void *recv, size_t count, coll_dtype_t dtype,
                            coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_ALLTOALL, "alltoall", send, recv, count, dtype, COLL_SUM, 0, comm, stream);
}

coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream) {
  return collective(COLL_BARRIER, "barrier", NULL, NULL, 0, COLL_UINT8, COLL_SUM, 0, comm, stream);
}

coll_status_t coll_alltoallv(const void *send, const size_t send_counts[],
                             const size_t send_displs[], void *recv, const size_t recv_counts[],
                             const size_t recv_displs[], coll_dtype_t dtype, coll_comm_t comm,
                             coll_stream_t stream) {
  api_request_t request = {
      .verb = "alltoallv",
      .kind = RUN_COLLECTIVE,
      .comm = comm,
      .traits = {.collective = COLL_ALLTOALLV, .dtype = dtype, .reach = PLAN_REACH_USER},
      .send = send,
      .recv = recv};
  coll_status_t status =
      api_check_alltoallv(&request, send_counts, send_displs, recv_counts, recv_displs);
  const run_call_t call = api_call(&request);
  return api_submit(status, &call, stream);
}

static coll_status_t pair(run_call_kind_t kind, const void *send, void *recv, size_t count,
                          coll_dtype_t dtype, int peer, coll_comm_t comm, coll_stream_t stream) {
  api_request_t request = {.verb = kind == RUN_SEND ? "send" : "recv",
                           .kind = kind,
                           .comm = comm,
                           .traits = {.collective = COLL_SENDRECV, .dtype = dtype, .root = peer},
                           .count = count,
                           .send = send,
                           .recv = recv};
  coll_status_t status = api_check_pair(&request);
  const run_call_t call = api_call(&request);
  return api_submit(status, &call, stream);
}

coll_status_t coll_send(const void *send, size_t count, coll_dtype_t dtype, int peer,
                        coll_comm_t comm, coll_stream_t stream) {
  return pair(RUN_SEND, send, NULL, count, dtype, peer, comm, stream);
}

coll_status_t coll_recv(void *recv, size_t count, coll_dtype_t dtype, int peer, coll_comm_t comm,
                        coll_stream_t stream) {
  return pair(RUN_RECV, NULL, recv, count, dtype, peer, comm, stream);
}
