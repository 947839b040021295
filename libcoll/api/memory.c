/*
 * Memory that peers can map: the coll_mem functions of coll.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/check.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "device/cuda/allocations.h"
#include "offload/window.h"
#include "transport/memory.h"

#define REGISTRATION 141 /* the number of its tag (base/fork.h) */

struct coll_registration {
  base_handle_tag_t tag;
};

static base_handles_t registrations = BASE_HANDLES(struct coll_registration, "registrations");

/* Appends the thread's last error. */
static coll_status_t fail_device(int device, coll_status_t status) {
  char why[COMM_ERROR_BYTES];
  snprintf(why, sizeof why, "%s", base_last_error());
  return base_fail(status, "coll_mem_alloc: device %d: %s", device, why);
}

coll_status_t coll_mem_alloc(int device, size_t bytes, void **ptr) {
  if (ptr == NULL) {
    return base_fail(COLL_ERROR_INVALID, "no place for the address of the memory: ptr is NULL");
  }
  if (device < COLL_DEVICE_HOST) {
    return base_fail(
        COLL_ERROR_INVALID,
        "coll_mem_alloc: device %d does not exist: use COLL_DEVICE_HOST for host memory, "
        "or the index of a GPU",
        device);
  }
  if (device == COLL_DEVICE_HOST) return transport_memory_alloc(bytes, ptr);
  coll_status_t status = cuda_allocations_alloc(device, bytes, ptr);
  return status == COLL_OK ? status : fail_device(device, status);
}

coll_status_t coll_mem_free(void *ptr) {
  bool found;
  coll_status_t status = cuda_allocations_free(ptr, &found);
  return found ? status : transport_memory_free(ptr);
}

/* Every call finds out for itself whether memory can be mapped, so a registration prepares nothing,
 * of memory of GPUs either. */
coll_status_t coll_mem_register(coll_comm_t comm, void *ptr, size_t bytes,
                                coll_registration_t *handle) {
  struct coll_registration *made = NULL;
  COLL_TRY(comm_check(comm));
  if (handle == NULL || (ptr == NULL && bytes > 0)) {
    return base_fail(COLL_ERROR_INVALID, "coll_mem_register: %s is NULL",
                     handle == NULL ? "handle" : "ptr");
  }
  COLL_TRY(base_handles_new(&registrations, (void **)&made));
  atomic_store_explicit(&made->tag, base_fork_tag + REGISTRATION, memory_order_release);
  *handle = made;
  return COLL_OK;
}

static coll_status_t check_window(coll_comm_t comm, const void *ptr, size_t bytes,
                                  const coll_window_t *window) {
  if (api_group_is_open()) return base_fail(COLL_ERROR_INVALID, "coll_window_create: in a group");
  if (window != NULL && (ptr != NULL || bytes == 0)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "coll_window_create on rank %d of %d: %s is NULL",
                   comm->rank, comm->size, window == NULL ? "window" : "ptr");
}

coll_status_t coll_window_create(coll_comm_t comm, void *ptr, size_t bytes, coll_window_t *window) {
  COLL_TRY(api_check_outside(comm, "coll_window_create"));
  COLL_TRY(api_record_result(comm, check_window(comm, ptr, bytes, window)));
  return api_record_result(comm, offload_window_create(comm, ptr, bytes, window));
}

coll_status_t coll_window_destroy(coll_window_t window) {
  bool inherited;
  if (window == NULL) return COLL_OK;
  COLL_TRY(offload_window_check(window, &inherited));
  return inherited ? COLL_OK : offload_window_destroy(window);
}

coll_status_t coll_mem_deregister(coll_registration_t handle) {
  if (handle == NULL) return COLL_OK;
  uint64_t tag = base_handles_tag(&registrations, handle);
  if (base_fork_inherited(tag) == REGISTRATION) return COLL_OK;
  if (tag != base_fork_tag + REGISTRATION) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_mem_deregister: %p is not a registration, or it was deregistered "
                     "already: use what coll_mem_register set",
                     (void *)handle);
  }
  base_handles_free(&registrations, handle);
  return COLL_OK;
}
