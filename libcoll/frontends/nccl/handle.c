/*
 * Handles of communicators: uses, states and texts.
 */
#include "frontends/nccl/handle.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/nccl/driver.h"
#include "frontends/nccl/environment.h"

#define HANDLE_MAGIC 0x6e63636cu

ncclComm_t nccl_handle_new(bool blocking, int device) {
  ncclComm_t handle = calloc(1, sizeof *handle);
  if (handle == NULL) {
    nccl_fail(ncclSystemError, "out of memory for a communicator");
    return NULL;
  }
  handle->magic = HANDLE_MAGIC;
  handle->blocking = blocking;
  int current = nccl_driver_device();
  handle->device = device >= 0 ? device : current;
  atomic_init(&handle->uses, 1);
  atomic_init(&handle->is_owned, true);
  atomic_init(&handle->state, NCCL_READY);
  return handle;
}

void nccl_handle_use(ncclComm_t handle) {
  atomic_fetch_add_explicit(&handle->uses, 1, memory_order_relaxed);
}

coll_status_t nccl_handle_release(ncclComm_t handle) {
  if (atomic_fetch_sub_explicit(&handle->uses, 1, memory_order_acq_rel) > 1) return COLL_OK;
  coll_status_t status = coll_comm_destroy(handle->comm);
  handle->magic = 0;
  free(handle);
  return status;
}

bool nccl_handle_take(ncclComm_t handle) {
  return atomic_exchange(&handle->is_owned, false);
}

coll_status_t nccl_handle_disown(ncclComm_t handle) {
  return nccl_handle_take(handle) ? nccl_handle_release(handle) : COLL_OK;
}

ncclResult_t nccl_handle_check(ncclComm_t handle, const char *function) {
  if (handle != NULL && handle->magic == HANDLE_MAGIC) return ncclSuccess;
  return nccl_fail(
      ncclInvalidArgument, "%s: %s", function,
      handle == NULL ? "the communicator is NULL" : "this is no communicator, or it was destroyed");
}

/* What a handle knows of its communicator once that is made. */
static ncclResult_t prepare(ncclComm_t handle, const char *function) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  coll_status_t status = handle->comm != NULL ? coll_comm_error(handle->comm) : COLL_IN_PROGRESS;
  if (status == COLL_IN_PROGRESS) {
    return nccl_fail(ncclInvalidArgument,
                     "%s: the communicator is still in progress: call ncclCommGetAsyncError until "
                     "it gives another result than ncclInProgress",
                     function);
  }
  if (status != COLL_OK) {
    return nccl_fail(nccl_result_of(status), "%s: %s", function, coll_last_error(handle->comm));
  }
  pthread_mutex_lock(&lock);
  if (!atomic_load_explicit(&handle->prepared, memory_order_relaxed)) {
    coll_comm_rank(handle->comm, &handle->rank);
    coll_comm_size(handle->comm, &handle->size);
    nccl_environment_set_algorithms(handle->comm);
    atomic_store_explicit(&handle->prepared, true, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return ncclSuccess;
}

ncclResult_t nccl_handle_check_made(ncclComm_t handle, const char *function) {
  ncclResult_t result = nccl_handle_check(handle, function);
  if (result != ncclSuccess) return result;
  bool prepared = atomic_load_explicit(&handle->prepared, memory_order_acquire);
  return prepared ? ncclSuccess : prepare(handle, function);
}

ncclResult_t nccl_handle_check_ready(ncclComm_t handle, const char *function) {
  ncclResult_t result = nccl_handle_check_made(handle, function);
  if (result != ncclSuccess) return result;
  switch (atomic_load_explicit(&handle->state, memory_order_acquire)) {
    case NCCL_READY: return ncclSuccess;
    case NCCL_SUSPENDED:
      return nccl_fail(ncclInvalidUsage,
                       "%s: the communicator is suspended: call ncclCommResume first", function);
    case NCCL_REVOKED:
      return nccl_fail(ncclInvalidUsage, "%s: the communicator was revoked: destroy it", function);
    default:
      return nccl_fail(ncclInvalidUsage, "%s: the communicator was finalized: destroy it",
                       function);
  }
}

bool nccl_handle_failure(ncclComm_t handle, char *text, size_t bytes) {
  if (handle == NULL || handle->magic != HANDLE_MAGIC || handle->comm == NULL) return false;
  coll_status_t status = coll_comm_error(handle->comm);
  if (status == COLL_OK || status == COLL_IN_PROGRESS) return false;
  snprintf(text, bytes, "%s", coll_last_error(handle->comm));
  return true;
}
