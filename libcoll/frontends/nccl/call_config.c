/*
 * The collectives with a configuration, of NCCL 2.32: hints about a GPU's resources are checked and
 * ignored, orders that cannot be followed are refused.
 */
#include "frontends/nccl/group.h"

static ncclResult_t check(const ncclCollConfig_t *config, const char *function) {
  if (config == NULL) return ncclSuccess;
  if (config->magic != NCCL_MAGIC || config->size < sizeof *config) {
    return nccl_fail(ncclInvalidArgument, "%s: set config to NCCL_COLLCONFIG_INITIALIZER first",
                     function);
  }
  if (config->launchCompletionEvent != NULL) {
    return nccl_fail(ncclInvalidUsage, "%s: this library has no support for CUDA events yet",
                     function);
  }
  if (config->algSelection != NULL && config->forceAlgSelection > 0) {
    return nccl_fail(ncclInvalidUsage,
                     "%s: an algorithm cannot be forced for one call; NCCL_ALGO forces one for all "
                     "calls of a process",
                     function);
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclAllReduceConfig"));
  if (result != ncclSuccess) return result;
  return ncclAllReduce(send, recv, count, dtype, op, comm, stream);
}
NCCL_ALIAS(ncclAllReduceConfig);

ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclReduceConfig"));
  if (result != ncclSuccess) return result;
  return ncclReduce(send, recv, count, dtype, op, root, comm, stream);
}
NCCL_ALIAS(ncclReduceConfig);

ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                 int root, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclBroadcastConfig"));
  if (result != ncclSuccess) return result;
  return ncclBroadcast(send, recv, count, dtype, root, comm, stream);
}
NCCL_ALIAS(ncclBroadcastConfig);

ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t recv_count,
                                     ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclReduceScatterConfig"));
  if (result != ncclSuccess) return result;
  return ncclReduceScatter(send, recv, recv_count, dtype, op, comm, stream);
}
NCCL_ALIAS(ncclReduceScatterConfig);

ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t send_count,
                                 ncclDataType_t dtype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclAllGatherConfig"));
  if (result != ncclSuccess) return result;
  return ncclAllGather(send, recv, send_count, dtype, comm, stream);
}
NCCL_ALIAS(ncclAllGatherConfig);

ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclAlltoAllConfig"));
  if (result != ncclSuccess) return result;
  return ncclAlltoAll(send, recv, count, dtype, comm, stream);
}
NCCL_ALIAS(ncclAlltoAllConfig);

ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                              int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclGatherConfig"));
  if (result != ncclSuccess) return result;
  return ncclGather(send, recv, count, dtype, root, comm, stream);
}
NCCL_ALIAS(ncclGatherConfig);

ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               int root, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t *config) {
  ncclResult_t result = nccl_group_note(check(config, "ncclScatterConfig"));
  if (result != ncclSuccess) return result;
  return ncclScatter(send, recv, count, dtype, root, comm, stream);
}
NCCL_ALIAS(ncclScatterConfig);
