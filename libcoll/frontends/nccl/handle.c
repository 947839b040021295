/*
 * Handles of communicators: uses, states and texts.
 */
#include "frontends/nccl/handle.h"

#include <stdio.h>
#include <stdlib.h>

#include "frontends/nccl/driver.h"
#include "frontends/nccl/environment.h"
#include "frontends/nccl/stream.h"

static base_handles_t handles = BASE_HANDLES(struct ncclComm, "communicators");
static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t prepare_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget(void) {
  pthread_mutex_init(&link_lock, NULL);
  pthread_mutex_init(&prepare_lock, NULL);
}
NCCL_IN_CHILD(forget);

bool nccl_handle_is_inherited(ncclComm_t handle) {
  return base_fork_inherited(base_handles_tag(&handles, handle)) == NCCL_TAG_COMM;
}

static bool is_own(ncclComm_t handle) {
  return base_handles_tag(&handles, handle) == base_fork_tag + NCCL_TAG_COMM;
}

ncclComm_t nccl_handle_new(bool blocking, int device) {
  ncclComm_t handle;
  if (base_handles_new(&handles, (void **)&handle) != COLL_OK) {
    nccl_fail(ncclSystemError, "out of memory for a communicator");
    return NULL;
  }
  handle->blocking = blocking;
  int current = nccl_driver_find() ? nccl_driver_device() : -1;
  handle->device = device >= 0 ? device : current >= 0 ? current : 0;
  handle->device_is_guessed = device < 0 && current < 0;
  atomic_init(&handle->uses, 1);
  atomic_init(&handle->is_owned, true);
  atomic_init(&handle->state, NCCL_READY);
  atomic_store_explicit(&handle->tag, base_fork_tag + NCCL_TAG_COMM, memory_order_release);
  return handle;
}

void nccl_handle_use(ncclComm_t handle) {
  atomic_fetch_add_explicit(&handle->uses, 1, memory_order_relaxed);
}

/* ---- parents and children ---------------------------------------------------------------------*/

/* The caller holds the lock. */
static void unlink_child(ncclComm_t parent) {
  if (parent->child != NULL) parent->child->parent = NULL;
  parent->child = NULL;
}

static void unlink_all(ncclComm_t handle) {
  pthread_mutex_lock(&link_lock);
  unlink_child(handle);
  if (handle->parent != NULL) unlink_child(handle->parent);
  pthread_mutex_unlock(&link_lock);
}

void nccl_handle_link(ncclComm_t parent, ncclComm_t child) {
  pthread_mutex_lock(&link_lock);
  unlink_child(parent);
  parent->child = child;
  child->parent = parent;
  pthread_mutex_unlock(&link_lock);
}

bool nccl_handle_makes_child(ncclComm_t parent) {
  pthread_mutex_lock(&link_lock);
  ncclComm_t child = parent->child;
  bool makes = child != NULL && coll_comm_error(child->comm) == COLL_IN_PROGRESS;
  if (!makes) unlink_child(parent);
  pthread_mutex_unlock(&link_lock);
  return makes;
}

/* ---- uses -------------------------------------------------------------------------------------*/

coll_status_t nccl_handle_release(ncclComm_t handle) {
  if (atomic_fetch_sub_explicit(&handle->uses, 1, memory_order_acq_rel) > 1) return COLL_OK;
  unlink_all(handle);
  coll_status_t status = coll_comm_destroy(handle->comm);
  nccl_stream_free_all(handle);
  base_handles_free(&handles, handle);
  return status;
}

bool nccl_handle_take(ncclComm_t handle) {
  return atomic_exchange(&handle->is_owned, false);
}

coll_status_t nccl_handle_disown(ncclComm_t handle) {
  return nccl_handle_take(handle) ? nccl_handle_release(handle) : COLL_OK;
}

static ncclResult_t fail_inherited(ncclComm_t handle, const char *function) {
  return nccl_fail(ncclInvalidUsage, "%s: %s", function,
                   handle->comm != NULL
                       ? coll_last_error(handle->comm)
                       : "the communicator is made by the process from which this one was forked");
}

ncclResult_t nccl_handle_check(ncclComm_t handle, const char *function) {
  if (is_own(handle)) return ncclSuccess;
  if (nccl_handle_is_inherited(handle)) return fail_inherited(handle, function);
  if (handle == NULL) {
    return nccl_fail(ncclInvalidArgument, "%s: the communicator is NULL", function);
  }
  return nccl_fail(ncclInvalidUsage, "%s: %p is no communicator, or it was destroyed", function,
                   (void *)handle);
}

/* What a handle knows of its communicator once that is made. */
static ncclResult_t prepare(ncclComm_t handle, const char *function) {
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
  pthread_mutex_lock(&prepare_lock);
  if (!atomic_load_explicit(&handle->prepared, memory_order_relaxed)) {
    coll_comm_rank(handle->comm, &handle->rank);
    coll_comm_size(handle->comm, &handle->size);
    nccl_environment_set_algorithms(handle->comm);
    atomic_store_explicit(&handle->prepared, true, memory_order_release);
  }
  pthread_mutex_unlock(&prepare_lock);
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
  if (!is_own(handle) || handle->comm == NULL) return false;
  coll_status_t status = coll_comm_error(handle->comm);
  if (status == COLL_OK || status == COLL_IN_PROGRESS) return false;
  snprintf(text, bytes, "%s", coll_last_error(handle->comm));
  return true;
}
