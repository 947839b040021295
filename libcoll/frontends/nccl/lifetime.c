/*
 * Functions that end communicators, or stop them for a time.
 */
#include "frontends/nccl/group.h"

/* A thread that aborts the communicator meanwhile does not free it. */
static ncclResult_t finalize(ncclComm_t comm) {
  nccl_handle_use(comm);
  coll_status_t status = coll_comm_finalize(comm->comm);
  if (status != COLL_ERROR_INVALID) atomic_store(&comm->state, NCCL_FINALIZED);
  ncclResult_t result = nccl_result(status, "ncclCommFinalize");
  nccl_handle_release(comm);
  return result;
}

/* In a group there is nothing to be done but to remember it: calls are complete when they return.
 */
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == NULL) return ncclSuccess;
  ncclResult_t result = nccl_handle_check_ready(comm, "ncclCommFinalize");
  if (result != ncclSuccess) return nccl_group_note(result);
  if (!nccl_group_is_open()) return finalize(comm);
  atomic_store(&comm->state, NCCL_FINALIZED);
  return ncclSuccess;
}
NCCL_ALIAS(ncclCommFinalize);

/* In a group, the end of it ends the program's use. What is found wrong with an aborted
 * communicator is no failure. */
static ncclResult_t end_use(ncclComm_t comm, const char *function, bool aborts) {
  if (!nccl_group_is_open()) {
    coll_status_t status = nccl_handle_disown(comm);
    return aborts ? ncclSuccess : nccl_result(status, function);
  }
  if (!nccl_handle_take(comm)) return ncclSuccess;
  return nccl_group_note(nccl_group_add_release(comm, aborts));
}

/* A forked process has nothing of the communicators of its parent that it could end. */
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == NULL || nccl_handle_is_inherited(comm)) return ncclSuccess;
  ncclResult_t result = nccl_handle_check(comm, "ncclCommDestroy");
  if (result != ncclSuccess) return nccl_group_note(result);
  return end_use(comm, "ncclCommDestroy", false);
}
NCCL_ALIAS(ncclCommDestroy);

/* Whether this rank has nothing under way: other ranks may not have finished their last call, and
 * an abort would fail it. Without one they find that this rank has left, if they wait for it. */
static bool is_idle(ncclComm_t comm) {
  coll_status_t status = coll_comm_error(comm->comm);
  if (status == COLL_IN_PROGRESS) return false; /* being made, split or finalized */
  bool has_ended = atomic_load(&comm->state) == NCCL_FINALIZED;
  if (has_ended || status != COLL_OK || atomic_load(&comm->uses) > 1) return has_ended;
  return coll_comm_gpu_query(comm->comm) != COLL_IN_PROGRESS;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == NULL || nccl_handle_is_inherited(comm)) return ncclSuccess;
  ncclResult_t result = nccl_handle_check(comm, "ncclCommAbort");
  if (result != ncclSuccess) return nccl_group_note(result);
  if (comm->comm == NULL) {
    atomic_store(&comm->is_abandoned, true);
  } else if (!is_idle(comm)) {
    coll_comm_abort(comm->comm);
  }
  return end_use(comm, "ncclCommAbort", true);
}
NCCL_ALIAS(ncclCommAbort);

/* Unlike NCCL's, a communicator that was revoked can only be destroyed. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  ncclResult_t result = nccl_handle_check_ready(comm, "ncclCommRevoke");
  if (result == ncclSuccess && flags != 0) {
    result = nccl_fail(ncclInvalidArgument, "ncclCommRevoke: revokeFlags %d: give 0", flags);
  }
  if (result != ncclSuccess) return result;
  atomic_store(&comm->state, NCCL_REVOKED);
  coll_comm_abort(comm->comm);
  return ncclSuccess;
}
NCCL_ALIAS(ncclCommRevoke);

/* There is no memory of a GPU to be released; the rules for the program are NCCL's. */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  ncclResult_t result = nccl_handle_check_ready(comm, "ncclCommSuspend");
  if (result == ncclSuccess && flags != 1) {
    result =
        nccl_fail(ncclInvalidArgument, "ncclCommSuspend: flags %d: give NCCL_SUSPEND_MEM", flags);
  }
  if (result == ncclSuccess) atomic_store(&comm->state, NCCL_SUSPENDED);
  return result;
}
NCCL_ALIAS(ncclCommSuspend);

ncclResult_t ncclCommResume(ncclComm_t comm) {
  nccl_state_t suspended = NCCL_SUSPENDED;
  ncclResult_t result = nccl_handle_check(comm, "ncclCommResume");
  if (result != ncclSuccess) return result;
  if (atomic_compare_exchange_strong(&comm->state, &suspended, NCCL_READY)) return ncclSuccess;
  return nccl_fail(ncclInvalidUsage, "ncclCommResume: the communicator is not suspended");
}
NCCL_ALIAS(ncclCommResume);
