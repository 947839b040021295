/*
 * What a GPU's kernels need from the host, and one-sided transfers: refused, with a sentence.
 */
#include "frontends/nccl/group.h"

/* Parameters are what the program passes, whatever it is. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static ncclResult_t refuse(const char *function, const char *what) {
  return nccl_group_note(
      nccl_fail(ncclInvalidUsage, "%s: this library does not support %s", function, what));
}

static ncclResult_t refuse_kernels(const char *function) {
  return refuse(function, "communication by kernels of the program");
}

static ncclResult_t refuse_signals(const char *function) {
  return refuse(function, "one-sided transfers and signals; use ncclSend and ncclRecv");
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *requirements, void *made) {
  return refuse_kernels("ncclDevCommCreate");
}
NCCL_ALIAS(ncclDevCommCreate);

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void *made) {
  return refuse_kernels("ncclDevCommDestroy");
}
NCCL_ALIAS(ncclDevCommDestroy);

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **ptr) {
  return refuse("ncclGetLsaMultimemDevicePointer", "multicast memory");
}
NCCL_ALIAS(ncclGetLsaMultimemDevicePointer);

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, void *multimem,
                                          void **ptr) {
  return refuse("ncclGetMultimemDevicePointer", "multicast memory");
}
NCCL_ALIAS(ncclGetMultimemDevicePointer);

ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, uint32_t *id,
                                         size_t *le_offset) {
  return refuse("ncclGetMultimemDeviceLeInfo", "multicast memory");
}
NCCL_ALIAS(ncclGetMultimemDeviceLeInfo);

ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, ncclTeam_t team,
                                    uint32_t *id, size_t *le_offset) {
  return refuse_kernels("ncclGetCftDeviceLeInfo");
}
NCCL_ALIAS(ncclGetCftDeviceLeInfo);

ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, uint32_t *id,
                                     size_t *le_offset) {
  return refuse_kernels("ncclGetPeerDeviceLeInfo");
}
NCCL_ALIAS(ncclGetPeerDeviceLeInfo);

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int count, void *handle,
                                             void *requirement) {
  return refuse_kernels("ncclLsaBarrierCreateRequirement");
}
NCCL_ALIAS(ncclLsaBarrierCreateRequirement);

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int count,
                                             void *handle, void *requirement) {
  return refuse_kernels("ncclGinBarrierCreateRequirement");
}
NCCL_ALIAS(ncclGinBarrierCreateRequirement);

ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int blocks, int size_log2,
                                              void *handle, void *requirement) {
  return refuse_kernels("ncclGinInboxA2ACreateRequirement");
}
NCCL_ALIAS(ncclGinInboxA2ACreateRequirement);

ncclResult_t ncclGinOutboxCreateRequirement(int blocks, int size_log2, void *handle,
                                            void *requirement) {
  return refuse_kernels("ncclGinOutboxCreateRequirement");
}
NCCL_ALIAS(ncclGinOutboxCreateRequirement);

/* A number of slots, which nothing can be made of: none. */
int ncclLLA2ACalcSlots(int elements, int element_bytes) {
  return 0;
}
NCCL_ALIAS(ncclLLA2ACalcSlots);

ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, void *handle, void *requirement) {
  return refuse_kernels("ncclLLA2ACreateRequirement");
}
NCCL_ALIAS(ncclLLA2ACreateRequirement);

ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t dtype, int peer,
                           ncclWindow_t window, size_t offset, int signal, int context,
                           unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  return refuse_signals("ncclPutSignal");
}
NCCL_ALIAS(ncclPutSignal);

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream) {
  return refuse_signals("ncclSignal");
}
NCCL_ALIAS(ncclSignal);

ncclResult_t ncclWaitSignal(int count, void *descriptions, ncclComm_t comm, cudaStream_t stream) {
  return refuse_signals("ncclWaitSignal");
}
NCCL_ALIAS(ncclWaitSignal);
