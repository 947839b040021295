/*
 * The collectives of MPI that the layer intercepts, in C.
 */
#include "frontends/mpi/call.h"

LAYER_EXPORT int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                               int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  if (layer_passes(LAYER_ALLGATHER, comm, recv_count, NULL, recv_type, LAYER_NO_OP)) {
    return pmpi.Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
  }
  const layer_call_t call = {.verb = LAYER_ALLGATHER,
                             .comm = comm,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type,
                                void *recv, const int recv_counts[], const int recv_displs[],
                                MPI_Datatype recv_type, MPI_Comm comm) {
  if (layer_passes(LAYER_ALLGATHERV, comm, 0, recv_counts, recv_type, LAYER_NO_OP)) {
    return pmpi.Allgatherv(send, send_count, send_type, recv, recv_counts, recv_displs, recv_type,
                           comm);
  }
  const layer_call_t call = {.verb = LAYER_ALLGATHERV,
                             .comm = comm,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side_v(recv, recv_counts, recv_displs, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type,
                               MPI_Op op, MPI_Comm comm) {
  if (layer_passes(LAYER_ALLREDUCE, comm, count, NULL, type, op)) {
    return pmpi.Allreduce(send, recv, count, type, op, comm);
  }
  const layer_call_t call = {.verb = LAYER_ALLREDUCE,
                             .comm = comm,
                             .op = op,
                             .send = layer_side(send, count, type),
                             .recv = layer_side(recv, count, type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                              int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  if (layer_passes(LAYER_ALLTOALL, comm, recv_count, NULL, recv_type, LAYER_NO_OP)) {
    return pmpi.Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
  }
  const layer_call_t call = {.verb = LAYER_ALLTOALL,
                             .comm = comm,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Alltoallv(const void *send, const int send_counts[], const int send_displs[],
                               MPI_Datatype send_type, void *recv, const int recv_counts[],
                               const int recv_displs[], MPI_Datatype recv_type, MPI_Comm comm) {
  if (layer_passes(LAYER_ALLTOALLV, comm, 0, NULL, LAYER_NO_TYPE, LAYER_NO_OP)) {
    return pmpi.Alltoallv(send, send_counts, send_displs, send_type, recv, recv_counts, recv_displs,
                          recv_type, comm);
  }
  const layer_call_t call = {.verb = LAYER_ALLTOALLV,
                             .comm = comm,
                             .send = layer_side_v(send, send_counts, send_displs, send_type),
                             .recv = layer_side_v(recv, recv_counts, recv_displs, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Barrier(MPI_Comm comm) {
  if (layer_passes(LAYER_BARRIER, comm, 0, NULL, LAYER_NO_TYPE, LAYER_NO_OP)) {
    return pmpi.Barrier(comm);
  }
  const layer_call_t call = {.verb = LAYER_BARRIER, .comm = comm};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  if (layer_passes(LAYER_BCAST, comm, count, NULL, type, LAYER_NO_OP)) {
    return pmpi.Bcast(data, count, type, root, comm);
  }
  const layer_call_t call = {
      .verb = LAYER_BCAST, .comm = comm, .root = root, .recv = layer_side(data, count, type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                            int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  if (send != MPI_IN_PLACE &&
      layer_passes(LAYER_GATHER, comm, send_count, NULL, send_type, LAYER_NO_OP)) {
    return pmpi.Gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
  }
  const layer_call_t call = {.verb = LAYER_GATHER,
                             .comm = comm,
                             .root = root,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Gatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                             const int recv_counts[], const int recv_displs[],
                             MPI_Datatype recv_type, int root, MPI_Comm comm) {
  if (layer_passes(LAYER_GATHERV, comm, 0, NULL, LAYER_NO_TYPE, LAYER_NO_OP)) {
    return pmpi.Gatherv(send, send_count, send_type, recv, recv_counts, recv_displs, recv_type,
                        root, comm);
  }
  const layer_call_t call = {.verb = LAYER_GATHERV,
                             .comm = comm,
                             .root = root,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side_v(recv, recv_counts, recv_displs, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                            int root, MPI_Comm comm) {
  if (layer_passes(LAYER_REDUCE, comm, count, NULL, type, op)) {
    return pmpi.Reduce(send, recv, count, type, op, root, comm);
  }
  const layer_call_t call = {.verb = LAYER_REDUCE,
                             .comm = comm,
                             .op = op,
                             .root = root,
                             .send = layer_side(send, count, type),
                             .recv = layer_side(recv, count, type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Reduce_scatter(const void *send, void *recv, const int counts[],
                                    MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (layer_passes(LAYER_REDUCE_SCATTER, comm, 0, counts, type, op)) {
    return pmpi.Reduce_scatter(send, recv, counts, type, op, comm);
  }
  const layer_call_t call = {.verb = LAYER_REDUCE_SCATTER,
                             .comm = comm,
                             .op = op,
                             .send = layer_side_v(send, counts, NULL, type),
                             .recv = layer_side_v(recv, counts, NULL, type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Reduce_scatter_block(const void *send, void *recv, int count,
                                          MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  if (layer_passes(LAYER_REDUCE_SCATTER_BLOCK, comm, count, NULL, type, op)) {
    return pmpi.Reduce_scatter_block(send, recv, count, type, op, comm);
  }
  const layer_call_t call = {.verb = LAYER_REDUCE_SCATTER_BLOCK,
                             .comm = comm,
                             .op = op,
                             .send = layer_side(send, count, type),
                             .recv = layer_side(recv, count, type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Scatter(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                             int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  if (recv != MPI_IN_PLACE &&
      layer_passes(LAYER_SCATTER, comm, recv_count, NULL, recv_type, LAYER_NO_OP)) {
    return pmpi.Scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
  }
  const layer_call_t call = {.verb = LAYER_SCATTER,
                             .comm = comm,
                             .root = root,
                             .send = layer_side(send, send_count, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_collective(&call);
}

LAYER_EXPORT int MPI_Scatterv(const void *send, const int send_counts[], const int send_displs[],
                              MPI_Datatype send_type, void *recv, int recv_count,
                              MPI_Datatype recv_type, int root, MPI_Comm comm) {
  if (layer_passes(LAYER_SCATTERV, comm, 0, NULL, LAYER_NO_TYPE, LAYER_NO_OP)) {
    return pmpi.Scatterv(send, send_counts, send_displs, send_type, recv, recv_count, recv_type,
                         root, comm);
  }
  const layer_call_t call = {.verb = LAYER_SCATTERV,
                             .comm = comm,
                             .root = root,
                             .send = layer_side_v(send, send_counts, send_displs, send_type),
                             .recv = layer_side(recv, recv_count, recv_type)};
  return layer_collective(&call);
}
