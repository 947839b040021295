/*
 * Questions about communicators, and teams of their ranks.
 */
#include <stddef.h>
#include <string.h>

#include "frontends/nccl/environment.h"
#include "frontends/nccl/handle.h"

/* field: where the handle has the answer, once it is known that it is one. */
static ncclResult_t answer(ncclComm_t comm, const char *function, size_t field, int *value) {
  bool is_known = nccl_handle_is_inherited(comm) && atomic_load(&comm->prepared);
  ncclResult_t result = is_known ? ncclSuccess : nccl_handle_check_made(comm, function);
  if (result != ncclSuccess) return result;
  if (value == NULL) return nccl_fail(ncclInvalidArgument, "%s: the output is NULL", function);
  memcpy(value, (const char *)comm + field, sizeof *value);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
  return answer(comm, "ncclCommCount", offsetof(struct ncclComm, size), count);
}
NCCL_ALIAS(ncclCommCount);

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) {
  return answer(comm, "ncclCommCuDevice", offsetof(struct ncclComm, device), device);
}
NCCL_ALIAS(ncclCommCuDevice);

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
  return answer(comm, "ncclCommUserRank", offsetof(struct ncclComm, rank), rank);
}
NCCL_ALIAS(ncclCommUserRank);

/* Of the communicator. Its failure is this thread's latest; it is logged once. As with NCCL, it is
 * in progress while another is made from it in the background. */
static ncclResult_t result_of(ncclComm_t comm) {
  coll_comm_t made = comm->comm;
  ncclResult_t result = made != NULL ? nccl_result_of(coll_comm_error(made)) : ncclInProgress;
  if (result == ncclSuccess && nccl_handle_makes_child(comm)) return ncclInProgress;
  if (result == ncclSuccess || result == ncclInProgress) return result;
  const char *text = coll_last_error(made);
  return atomic_exchange(&comm->is_reported, true) ? nccl_repeat(result, text)
                                                   : nccl_fail(result, "%s", text);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  ncclResult_t result = nccl_handle_check(comm, "ncclCommGetAsyncError");
  if (result != ncclSuccess) return result;
  if (error == NULL) {
    return nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
  }
  if (atomic_load_explicit(&comm->state, memory_order_acquire) == NCCL_REVOKED) {
    *error = ncclSuccess; /* it has stopped, as the program wanted */
  } else {
    *error = result_of(comm);
  }
  return ncclSuccess;
}
NCCL_ALIAS(ncclCommGetAsyncError);

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value) {
  ncclResult_t result = nccl_handle_check_made(comm, "ncclCommMemStats");
  if (result != ncclSuccess) return result;
  if (value == NULL || (unsigned)stat > ncclStatGpuMemTotal) {
    return nccl_fail(ncclInvalidArgument, "ncclCommMemStats: %s",
                     value == NULL ? "value is NULL" : "no such statistic");
  }
  *value = stat == ncclStatGpuMemSuspended && atomic_load(&comm->state) == NCCL_SUSPENDED;
  return ncclSuccess;
}
NCCL_ALIAS(ncclCommMemStats);

/* Nothing of what the fields behind the first ones ask for is supported: they are zeroed. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties) {
  static const char function[] = "ncclCommQueryProperties";
  ncclResult_t result = nccl_handle_check_made(comm, function);
  if (result != ncclSuccess) return result;
  if (properties == NULL || properties->magic != NCCL_MAGIC ||
      properties->size < sizeof *properties) {
    return nccl_fail(ncclInvalidArgument,
                     "%s: set properties to NCCL_COMM_PROPERTIES_INITIALIZER first", function);
  }
  ncclCommProperties_t head = *properties;
  memset(properties, 0, head.size);
  head.rank = comm->rank;
  head.nRanks = comm->size;
  head.cudaDev = head.nvmlDev = comm->device;
  *properties = head;
  return ncclSuccess;
}
NCCL_ALIAS(ncclCommQueryProperties);

ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config) {
  if (config == NULL || config->magic != NCCL_MAGIC || config->size < sizeof *config) {
    return nccl_fail(ncclInvalidArgument,
                     "ncclSetEncryption: set config to NCCL_ENCRYPTION_CONFIG_INITIALIZER first");
  }
  if (config->mode == 0) return ncclSuccess;
  return nccl_fail(ncclInvalidUsage,
                   "ncclSetEncryption: this library authenticates its connections and does not "
                   "encrypt them");
}
NCCL_ALIAS(ncclSetEncryption);

void ncclResetDebugInit(void) {
  nccl_log_reset();
}
NCCL_ALIAS(ncclResetDebugInit);

/* The originals have no pncclResetDebugInitInternal. */
void ncclResetDebugInitInternal(void) {
  nccl_log_reset();
}

/* ---- teams: without GPUs, no rank can load from or store to the memory of another -------------*/

ncclTeam_t ncclTeamWorld(ncclComm_t comm) {
  if (nccl_handle_check_made(comm, "ncclTeamWorld") != ncclSuccess) return (ncclTeam_t){0};
  return (ncclTeam_t){.nRanks = comm->size, .rank = comm->rank, .stride = 1};
}
NCCL_ALIAS(ncclTeamWorld);

ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  if (nccl_handle_check_made(comm, "ncclTeamLsa") != ncclSuccess) return (ncclTeam_t){0};
  return (ncclTeam_t){.nRanks = 1, .rank = 0, .stride = 1};
}
NCCL_ALIAS(ncclTeamLsa);

ncclTeam_t ncclTeamRail(ncclComm_t comm) {
  return ncclTeamWorld(comm);
}
NCCL_ALIAS(ncclTeamRail);

ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode) {
  (void)mode;
  return ncclTeamLsa(comm);
}
NCCL_ALIAS(ncclTeamCft);

ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm) {
  return ncclTeamLsa(comm);
}
NCCL_ALIAS(ncclTeamCftMultimem);

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  if (nccl_handle_check_made(comm, "ncclTeamRankToWorld") != ncclSuccess) return -1;
  return comm->rank + (rank - team.rank) * team.stride;
}
NCCL_ALIAS(ncclTeamRankToWorld);

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  if (nccl_handle_check_made(comm, "ncclTeamRankToLsa") != ncclSuccess) return -1;
  return (rank - team.rank) * team.stride;
}
NCCL_ALIAS(ncclTeamRankToLsa);
