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

/* Defines the function with a configuration of the one called `NAME`. */
#define WITH_CONFIG(NAME, ARGUMENTS, ...)                                  \
  ncclResult_t NAME##Config(__VA_ARGS__, const ncclCollConfig_t *config) { \
    ncclResult_t result = nccl_group_note(check(config, #NAME "Config"));  \
    return result == ncclSuccess ? NAME ARGUMENTS : result;                \
  }                                                                        \
  NCCL_ALIAS(NAME##Config)

WITH_CONFIG(ncclAllReduce, (send, recv, count, dtype, op, comm, stream), const void *send,
            void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream);

WITH_CONFIG(ncclReduce, (send, recv, count, dtype, op, root, comm, stream), const void *send,
            void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
            ncclComm_t comm, cudaStream_t stream);

WITH_CONFIG(ncclBroadcast, (send, recv, count, dtype, root, comm, stream), const void *send,
            void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
            cudaStream_t stream);

WITH_CONFIG(ncclReduceScatter, (send, recv, recv_count, dtype, op, comm, stream), const void *send,
            void *recv, size_t recv_count, ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream);

WITH_CONFIG(ncclAllGather, (send, recv, send_count, dtype, comm, stream), const void *send,
            void *recv, size_t send_count, ncclDataType_t dtype, ncclComm_t comm,
            cudaStream_t stream);

WITH_CONFIG(ncclAlltoAll, (send, recv, count, dtype, comm, stream), const void *send, void *recv,
            size_t count, ncclDataType_t dtype, ncclComm_t comm, cudaStream_t stream);

WITH_CONFIG(ncclGather, (send, recv, count, dtype, root, comm, stream), const void *send,
            void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
            cudaStream_t stream);

WITH_CONFIG(ncclScatter, (send, recv, count, dtype, root, comm, stream), const void *send,
            void *recv, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
            cudaStream_t stream);
