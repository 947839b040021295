/*
 * The binary interface of NCCL 2: names, numbers and layouts as its user guide and the symbols of
 * its releases 2.28.9, 2.30.7 and 2.32.3 give them. Programs are compiled against NVIDIA's nccl.h;
 * this header is for the front end alone, so CUDA's types are opaque pointers here. Meaning,
 * ownership and errors of a function are those of NCCL's user guide; where ours differ, the
 * function's file says so.
 */
#ifndef FRONTENDS_NCCL_ABI_H
#define FRONTENDS_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* As in NCCL's library: ncclX is weak, so that a profiler may define it and call pncclX. */
#ifndef NCCL_API
#define NCCL_API __attribute__((weak, visibility("default")))
#endif
/* Defines pncclX as another name of ncclX; stands behind the definition. */
#define NCCL_ALIAS(name) \
  extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")))

#define NCCL_MAGIC 0xcafebeefu     /* of ncclConfig_t and ncclCollConfig_t */
#define NCCL_SIM_MAGIC 0x74685283u /* of ncclSimInfo_t */
#define NCCL_UNDEFINED INT_MIN     /* an int of ncclConfig_t that the program has not set */
#define NCCL_NO_COLOR (-1)
#define NCCL_SHRINK_ABORT 1

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParamHandle *ncclParamHandle_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8 /* since 2.30 */
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8,
  ncclInt32,
  ncclUint32,
  ncclInt64,
  ncclUint64,
  ncclFloat16,
  ncclFloat32,
  ncclFloat64,
  ncclBfloat16,
  ncclFloat8e4m3,
  ncclFloat8e5m2,
  ncclNumTypes
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd,
  ncclMax,
  ncclMin,
  ncclAvg,
  ncclNumOps, /* from here on: made by ncclRedOpCreatePreMulSum */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* Later releases add fields at the end; `size` is that of the program's. */
typedef struct {
  size_t size;
  unsigned int magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned int magic, version;
  void *ext;
  int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
  const char *algSelection;
  int forceAlgSelection, CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

typedef struct {
  size_t size;
  unsigned int magic, version;
  float estimatedTime; /* us */
} ncclSimInfo_t;

typedef struct {
  size_t size;
  unsigned int magic, version;
  int rank, nRanks, cudaDev, nvmlDev;
} ncclCommProperties_t; /* its first fields; those behind them say what a GPU supports */

typedef struct {
  size_t size;
  unsigned int magic, version;
  int mode; /* 0: none */
  const char *psk;
} ncclEncryptionConfig_t;

typedef struct {
  int nRanks, rank, stride;
} ncclTeam_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended,
  ncclStatGpuMemPersist,
  ncclStatGpuMemTotal
} ncclCommMemStat_t;

/* ---- communicators ---- */

NCCL_API ncclResult_t ncclGetVersion(int *version);
NCCL_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
NCCL_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank);
NCCL_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                             ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int size, int rank, int id_count,
                                               ncclUniqueId *ids, ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices);
NCCL_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *new_comm,
                                    ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count,
                                     ncclComm_t *new_comm, ncclConfig_t *config, int flags);
NCCL_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
NCCL_API ncclResult_t ncclCommGrow(ncclComm_t comm, int size, const ncclUniqueId *id, int rank,
                                   ncclComm_t *new_comm, ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommAbort(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
NCCL_API ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
NCCL_API ncclResult_t ncclCommResume(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
NCCL_API ncclResult_t ncclCommCount(ncclComm_t comm, int *count);
NCCL_API ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device);
NCCL_API ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
NCCL_API ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
NCCL_API ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties);
NCCL_API ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);

/* ---- errors ---- */

NCCL_API const char *ncclGetErrorString(ncclResult_t result);
NCCL_API const char *ncclGetLastError(ncclComm_t comm);
NCCL_API void ncclResetDebugInit(void);
NCCL_API void ncclResetDebugInitInternal(void);

/* ---- memory ---- */

NCCL_API ncclResult_t ncclMemAlloc(void **ptr, size_t bytes);
NCCL_API ncclResult_t ncclMemFree(void *ptr);
NCCL_API ncclResult_t ncclCommRegister(ncclComm_t comm, void *ptr, size_t bytes, void **handle);
NCCL_API ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle);
NCCL_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *ptr, size_t bytes,
                                             ncclWindow_t *window, int flags);
NCCL_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
NCCL_API ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr);
NCCL_API ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsa_rank,
                                              void **ptr);
NCCL_API ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer,
                                               void **ptr);

/* ---- reductions of the program ---- */

NCCL_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                               ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- collectives ---- */

NCCL_API ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
                                    ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                    cudaStream_t stream);
NCCL_API ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                 ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t dtype, int root,
                                ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                                    ncclDataType_t dtype, int root, ncclComm_t comm,
                                    cudaStream_t stream);
NCCL_API ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t recv_count,
                                        ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t stream);
NCCL_API ncclResult_t ncclAllGather(const void *send, void *recv, size_t send_count,
                                    ncclDataType_t dtype, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                   ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                 int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                  int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t dtype, int peer,
                               ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer,
                               ncclComm_t comm, cudaStream_t stream);

/* The same with hints for one call, since 2.32. */
NCCL_API ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count,
                                          ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                          cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count,
                                       ncclDataType_t dtype, ncclRedOp_t op, int root,
                                       ncclComm_t comm, cudaStream_t stream,
                                       const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count,
                                          ncclDataType_t dtype, int root, ncclComm_t comm,
                                          cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t recv_count,
                                              ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                              cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t send_count,
                                          ncclDataType_t dtype, ncclComm_t comm,
                                          cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count,
                                         ncclDataType_t dtype, ncclComm_t comm, cudaStream_t stream,
                                         const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count,
                                       ncclDataType_t dtype, int root, ncclComm_t comm,
                                       cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count,
                                        ncclDataType_t dtype, int root, ncclComm_t comm,
                                        cudaStream_t stream, const ncclCollConfig_t *config);

/* ---- groups ---- */

NCCL_API ncclResult_t ncclGroupStart(void);
NCCL_API ncclResult_t ncclGroupEnd(void);
NCCL_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info);

/* ---- teams of ranks ---- */

NCCL_API ncclTeam_t ncclTeamWorld(ncclComm_t comm);
NCCL_API ncclTeam_t ncclTeamLsa(ncclComm_t comm);
NCCL_API ncclTeam_t ncclTeamRail(ncclComm_t comm);
NCCL_API ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode);
NCCL_API ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
NCCL_API int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_API int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

/* ---- parameters: the NCCL_* environment variables that are known here ---- */

NCCL_API ncclResult_t ncclParamBind(ncclParamHandle_t *handle, const char *key);
NCCL_API ncclResult_t ncclParamGetI8(ncclParamHandle_t handle, int8_t *value);
NCCL_API ncclResult_t ncclParamGetI16(ncclParamHandle_t handle, int16_t *value);
NCCL_API ncclResult_t ncclParamGetI32(ncclParamHandle_t handle, int32_t *value);
NCCL_API ncclResult_t ncclParamGetI64(ncclParamHandle_t handle, int64_t *value);
NCCL_API ncclResult_t ncclParamGetU8(ncclParamHandle_t handle, uint8_t *value);
NCCL_API ncclResult_t ncclParamGetU16(ncclParamHandle_t handle, uint16_t *value);
NCCL_API ncclResult_t ncclParamGetU32(ncclParamHandle_t handle, uint32_t *value);
NCCL_API ncclResult_t ncclParamGetU64(ncclParamHandle_t handle, uint64_t *value);
NCCL_API ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char **value);
NCCL_API ncclResult_t ncclParamGet(ncclParamHandle_t handle, void *value, int bytes, int *length);
NCCL_API ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *length);
NCCL_API ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *count);
NCCL_API void ncclParamDumpAll(void);

/* ---- for GPUs only: refused (device.c). What a pointer points to matters to no one here. ---- */

NCCL_API ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *requirements, void *made);
NCCL_API ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void *made);
NCCL_API ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                                      void **ptr);
NCCL_API ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                                   void *multimem, void **ptr);
NCCL_API ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, uint32_t *id,
                                                  size_t *le_offset);
NCCL_API ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer,
                                             ncclTeam_t team, uint32_t *id, size_t *le_offset);
NCCL_API ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer,
                                              uint32_t *id, size_t *le_offset);
NCCL_API ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int count, void *handle,
                                                      void *requirement);
NCCL_API ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int count,
                                                      void *handle, void *requirement);
NCCL_API ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int blocks, int size_log2,
                                                       void *handle, void *requirement);
NCCL_API ncclResult_t ncclGinOutboxCreateRequirement(int blocks, int size_log2, void *handle,
                                                     void *requirement);
NCCL_API int ncclLLA2ACalcSlots(int elements, int element_bytes);
NCCL_API ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, void *handle,
                                                 void *requirement);
NCCL_API ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t dtype, int peer,
                                    ncclWindow_t window, size_t offset, int signal, int context,
                                    unsigned int flags, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags,
                                 ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclWaitSignal(int count, void *descriptions, ncclComm_t comm,
                                     cudaStream_t stream);

#endif
