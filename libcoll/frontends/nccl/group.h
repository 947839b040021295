/*
 * Groups of the calling thread: what ncclGroupEnd has to do.
 */
#ifndef FRONTENDS_NCCL_GROUP_H
#define FRONTENDS_NCCL_GROUP_H

#include "frontends/nccl/create.h"

/* How many levels are open. Every call looks at it: the model saves the call that finds it. */
extern _Thread_local int nccl_group_depth __attribute__((tls_model("initial-exec")));

static inline bool nccl_group_is_open(void) {
  return nccl_group_depth > 0;
}

/* Begins or continues the group of coll.h, for a call on the communicator; keeps a use of it until
 * the group ends. */
ncclResult_t nccl_group_add_call(ncclComm_t comm, coll_collective_t collective, size_t count,
                                 coll_dtype_t dtype);

/* Takes over the creation. */
void nccl_group_add_creation(nccl_creation_t *creation);

/* Takes over the window, which is made when the group ends, and its use of the communicator. */
void nccl_group_add_window(ncclWindow_t window);

/* Ends the program's use of the handle when the group ends. aborts: whatever is wrong with it then
 * is no failure of the group. */
ncclResult_t nccl_group_add_release(ncclComm_t comm, bool aborts);

/* Fails the group that is open. */
void nccl_group_fail(ncclResult_t result);

/* Returns result. If it is a failure and a group is open, the group fails with it. */
static inline ncclResult_t nccl_group_note(ncclResult_t result) {
  bool fails = result != ncclSuccess && result != ncclInProgress;
  if (fails && nccl_group_is_open()) nccl_group_fail(result);
  return result;
}

#endif
