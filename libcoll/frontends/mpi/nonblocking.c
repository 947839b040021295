/*
 * The collectives of MPI that the layer intercepts, in C: the non-blocking ones.
 */
#include "frontends/mpi/requests.h"

LAYER_EXPORT int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type,
                                void *recv, int recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_ALLGATHER,
                             .comm = comm,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Iallgatherv(const void *send, int send_count, MPI_Datatype send_type,
                                 void *recv, const int recv_counts[], const int recv_displs[],
                                 MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_ALLGATHERV,
                             .comm = comm,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side_v(recv, recv_counts, recv_displs, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type,
                                MPI_Op op, MPI_Comm comm, MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_ALLREDUCE,
                             .comm = comm,
                             .op = op,
                             .send = layer_side(send, count, type),
                             .recv = layer_side(recv, count, type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ialltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                               int recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                               MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_ALLTOALL,
                             .comm = comm,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ialltoallv(const void *send, const int send_counts[], const int send_displs[],
                                MPI_Datatype send_type, void *recv, const int recv_counts[],
                                const int recv_displs[], MPI_Datatype recv_type, MPI_Comm comm,
                                MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_ALLTOALLV,
                             .comm = comm,
                             .send = layer_side_v(send, send_counts, send_displs, send_type),
                             .recv = layer_side_v(recv, recv_counts, recv_displs, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_BARRIER, .comm = comm};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm,
                            MPI_Request *request) {
  const layer_call_t call = {
      .verb = LAYER_BCAST, .comm = comm, .root = root, .recv = layer_side(data, count, type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Igather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                             int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                             MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_GATHER,
                             .comm = comm,
                             .root = root,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Igatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                              const int recv_counts[], const int recv_displs[],
                              MPI_Datatype recv_type, int root, MPI_Comm comm,
                              MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_GATHERV,
                             .comm = comm,
                             .root = root,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side_v(recv, recv_counts, recv_displs, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                             int root, MPI_Comm comm, MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_REDUCE,
                             .comm = comm,
                             .op = op,
                             .root = root,
                             .send = layer_side(send, count, type),
                             .recv = layer_side(recv, count, type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ireduce_scatter(const void *send, void *recv, const int counts[],
                                     MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                     MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_REDUCE_SCATTER,
                             .comm = comm,
                             .op = op,
                             .send = layer_side_v(send, counts, NULL, type),
                             .recv = layer_side_v(recv, counts, NULL, type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Ireduce_scatter_block(const void *send, void *recv, int count,
                                           MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                           MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_REDUCE_SCATTER_BLOCK,
                             .comm = comm,
                             .op = op,
                             .send = layer_side(send, count, type),
                             .recv = layer_side(recv, count, type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Iscatter(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                              int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                              MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_SCATTER,
                             .comm = comm,
                             .root = root,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_start_collective(&call, request);
}

LAYER_EXPORT int MPI_Iscatterv(const void *send, const int send_counts[], const int send_displs[],
                               MPI_Datatype send_type, void *recv, int recv_count,
                               MPI_Datatype recv_type, int root, MPI_Comm comm,
                               MPI_Request *request) {
  const layer_call_t call = {.verb = LAYER_SCATTERV,
                             .comm = comm,
                             .root = root,
                             .send = layer_side_v(send, send_counts, send_displs, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_start_collective(&call, request);
}
