/*
 * Functions that end communicators, or stop them for a time.
 */
#include "frontends/nccl/group.h"

/* In a group there is nothing to be done but to remember it: calls are complete when they return.
 */
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == NULL) return ncclSuccess;
  ncclResult_t result = nccl_handle_check_ready(comm, "ncclCommFinalize");
  if (result != ncclSuccess) return nccl_group_note(result);
  atomic_store(&comm->state, NCCL_FINALIZED);
  if (nccl_group_is_open()) return ncclSuccess;
  return nccl_result(coll_comm_finalize(comm->comm), "ncclCommFinalize");
}
NCCL_ALIAS(ncclCommFinalize);

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == NULL) return ncclSuccess;
  ncclResult_t result = nccl_handle_check(comm, "ncclCommDestroy");
  if (result != ncclSuccess || nccl_group_is_open()) {
    return nccl_group_note(result == ncclSuccess ? nccl_group_add_release(comm) : result);
  }
  return nccl_result(nccl_handle_release(comm), "ncclCommDestroy");
}
NCCL_ALIAS(ncclCommDestroy);

/* A communicator that is being made is given up. After ncclCommFinalize this is ncclCommDestroy, as
 * other ranks may not have finished their last call.
 */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == NULL) return ncclSuccess;
  ncclResult_t result = nccl_handle_check(comm, "ncclCommAbort");
  if (result != ncclSuccess) return nccl_group_note(result);
  nccl_state_t state = atomic_load_explicit(&comm->state, memory_order_acquire);
  if (state == NCCL_READY || state == NCCL_SUSPENDED) coll_comm_abort(comm->comm);
  if (nccl_group_is_open()) return nccl_group_note(nccl_group_add_release(comm));
  nccl_handle_release(comm); /* what is found wrong with an aborted communicator is no failure */
  return ncclSuccess;
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
