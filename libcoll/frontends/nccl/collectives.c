/*
 * Collectives, sends and receives. Each function describes its call; one function checks and
 * starts it.
 */
#include <stdint.h>

#include "frontends/nccl/driver.h"
#include "frontends/nccl/group.h"
#include "frontends/nccl/stream.h"
#include "frontends/nccl/types.h"

typedef struct call {
  const char *function;
  coll_collective_t collective; /* COLL_SENDRECV: a send or a receive */
  bool receives;
  const void *send;
  void *recv;
  size_t count;
  ncclDataType_t dtype;
  ncclRedOp_t op;
  int root; /* or peer */
} call_t;

static coll_status_t start(const call_t *c, coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
                           coll_stream_t stream) {
  switch (c->collective) {
    case COLL_ALLREDUCE: return coll_allreduce(c->send, c->recv, c->count, dtype, op, comm, stream);
    case COLL_REDUCE:
      return coll_reduce(c->send, c->recv, c->count, dtype, op, c->root, comm, stream);
    case COLL_REDUCE_SCATTER:
      return coll_reduce_scatter(c->send, c->recv, c->count, dtype, op, comm, stream);
    case COLL_ALLGATHER: return coll_allgather(c->send, c->recv, c->count, dtype, comm, stream);
    case COLL_BROADCAST:
      return coll_broadcast(c->send, c->recv, c->count, dtype, c->root, comm, stream);
    case COLL_GATHER: return coll_gather(c->send, c->recv, c->count, dtype, c->root, comm, stream);
    case COLL_SCATTER:
      return coll_scatter(c->send, c->recv, c->count, dtype, c->root, comm, stream);
    case COLL_ALLTOALL: return coll_alltoall(c->send, c->recv, c->count, dtype, comm, stream);
    default:
      return c->receives ? coll_recv(c->recv, c->count, dtype, c->root, comm, stream)
                         : coll_send(c->send, c->count, dtype, c->root, comm, stream);
  }
}

static ncclResult_t check_and_start(const call_t *call, ncclComm_t comm, cudaStream_t stream) {
  const nccl_place_t place = {call->function, call->send, call->recv, stream};
  coll_stream_t on;
  coll_dtype_t dtype;
  coll_op_t op;
  ncclResult_t result = nccl_handle_check_ready(comm, call->function);
  if (result == ncclSuccess) result = nccl_dtype_check(call->dtype, call->function, &dtype);
  if (result == ncclSuccess) result = nccl_op_check(call->op, call->function, &op);
  if (result == ncclSuccess) result = nccl_stream_find(comm, &place, &on);
  if (result != ncclSuccess) return result;
  if (nccl_group_is_open()) {
    result = nccl_group_add_call(comm, call->collective, call->count, dtype);
    if (result != ncclSuccess) return result;
    return nccl_result(start(call, dtype, op, comm->comm, on), call->function);
  }
  nccl_handle_use(comm);
  coll_status_t status = start(call, dtype, op, comm->comm, on);
  result = nccl_result(status, call->function);
  nccl_handle_release(comm);
  return result;
}

static ncclResult_t submit(const call_t *call, ncclComm_t comm, cudaStream_t stream) {
  return nccl_group_note(check_and_start(call, comm, stream));
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit(&(call_t){"ncclAllReduce", COLL_ALLREDUCE, false, send, recv, count, dtype, op, 0},
                comm, stream);
}
NCCL_ALIAS(ncclAllReduce);

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(&(call_t){"ncclReduce", COLL_REDUCE, false, send, recv, count, dtype, op, root},
                comm, stream);
}
NCCL_ALIAS(ncclReduce);

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t recv_count,
                               ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit(&(call_t){"ncclReduceScatter", COLL_REDUCE_SCATTER, false, send, recv, recv_count,
                          dtype, op, 0},
                comm, stream);
}
NCCL_ALIAS(ncclReduceScatter);

ncclResult_t ncclAllGather(const void *send, void *recv, size_t send_count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit(
      &(call_t){"ncclAllGather", COLL_ALLGATHER, false, send, recv, send_count, dtype, ncclSum, 0},
      comm, stream);
}
NCCL_ALIAS(ncclAllGather);

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(
      &(call_t){"ncclBroadcast", COLL_BROADCAST, false, send, recv, count, dtype, ncclSum, root},
      comm, stream);
}
NCCL_ALIAS(ncclBroadcast);

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return submit(
      &(call_t){"ncclBcast", COLL_BROADCAST, false, buffer, buffer, count, dtype, ncclSum, root},
      comm, stream);
}
NCCL_ALIAS(ncclBcast);

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                          ncclComm_t comm, cudaStream_t stream) {
  return submit(
      &(call_t){"ncclAlltoAll", COLL_ALLTOALL, false, send, recv, count, dtype, ncclSum, 0}, comm,
      stream);
}
NCCL_ALIAS(ncclAlltoAll);

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return submit(
      &(call_t){"ncclGather", COLL_GATHER, false, send, recv, count, dtype, ncclSum, root}, comm,
      stream);
}
NCCL_ALIAS(ncclGather);

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return submit(
      &(call_t){"ncclScatter", COLL_SCATTER, false, send, recv, count, dtype, ncclSum, root}, comm,
      stream);
}
NCCL_ALIAS(ncclScatter);

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(
      &(call_t){"ncclSend", COLL_SENDRECV, false, send, NULL, count, dtype, ncclSum, peer}, comm,
      stream);
}
NCCL_ALIAS(ncclSend);

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit(&(call_t){"ncclRecv", COLL_SENDRECV, true, NULL, recv, count, dtype, ncclSum, peer},
                comm, stream);
}
NCCL_ALIAS(ncclRecv);

/* A scalar in memory of a GPU is read now; NCCL reads it when a call with the op runs. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  static const char function[] = "ncclRedOpCreatePreMulSum";
  coll_dtype_t found;
  coll_op_t made;
  uint64_t value;
  ncclResult_t result = nccl_handle_check_ready(comm, function);
  if (result == ncclSuccess) result = nccl_dtype_check(dtype, function, &found);
  if (result != ncclSuccess) return result;
  if (op == NULL) return nccl_fail(ncclInvalidArgument, "%s: op is NULL", function);
  if (residence == ncclScalarDevice && nccl_driver_memory(scalar) == NCCL_MEMORY_DEVICE) {
    if (!nccl_driver_read(comm->device, &value, scalar, coll_dtype_bytes(found))) {
      return nccl_fail(ncclUnhandledCudaError, "%s: the scalar cannot be read from the GPU",
                       function);
    }
    scalar = &value;
    residence = ncclScalarHostImmediate;
  }
  result = nccl_result(coll_op_create_premul_sum(scalar, found, (coll_scalar_residence_t)residence,
                                                 comm->comm, &made),
                       function);
  if (result == ncclSuccess) *op = (ncclRedOp_t)made;
  return result;
}
NCCL_ALIAS(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  ncclResult_t result = nccl_handle_check_ready(comm, "ncclRedOpDestroy");
  if (result != ncclSuccess) return result;
  if ((int)op < (int)COLL_OP_CREATED_MIN) {
    return nccl_fail(ncclInvalidArgument,
                     "ncclRedOpDestroy: op %d was not made by ncclRedOpCreatePreMulSum", (int)op);
  }
  return nccl_result(coll_op_destroy((coll_op_t)op, comm->comm), "ncclRedOpDestroy");
}
NCCL_ALIAS(ncclRedOpDestroy);
