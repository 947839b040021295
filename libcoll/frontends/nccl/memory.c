/*
 * Memory that peers can map, registrations, and windows. A window is a registration: the calls of
 * coll.h find out themselves what they can map.
 */
#include <stdlib.h>

#include "frontends/nccl/driver.h"
#include "frontends/nccl/group.h"

struct ncclWindow_vidmem {
  ncclComm_t comm;
  char *ptr;
  size_t bytes;
  coll_registration_t registration;
};

ncclResult_t ncclMemAlloc(void **ptr, size_t bytes) {
  if (ptr == NULL) return nccl_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
  return nccl_result(coll_mem_alloc(bytes, ptr), "ncclMemAlloc");
}
NCCL_ALIAS(ncclMemAlloc);

ncclResult_t ncclMemFree(void *ptr) {
  return ptr == NULL ? ncclSuccess : nccl_result(coll_mem_free(ptr), "ncclMemFree");
}
NCCL_ALIAS(ncclMemFree);

static ncclResult_t add(ncclComm_t comm, void *ptr, size_t bytes, const char *function,
                        coll_registration_t *made) {
  ncclResult_t result = nccl_handle_check_ready(comm, function);
  if (result != ncclSuccess) return result;
  if (nccl_driver_owns(ptr)) {
    return nccl_fail(ncclUnhandledCudaError,
                     "%s: this is memory of a GPU, which this library cannot access yet", function);
  }
  return nccl_result(coll_mem_register(comm->comm, ptr, bytes, made), function);
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *ptr, size_t bytes, void **handle) {
  coll_registration_t made;
  if (handle == NULL) return nccl_fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL");
  ncclResult_t result = add(comm, ptr, bytes, "ncclCommRegister", &made);
  if (result == ncclSuccess) *handle = made;
  return result;
}
NCCL_ALIAS(ncclCommRegister);

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
  ncclResult_t result = nccl_handle_check(comm, "ncclCommDeregister");
  if (result != ncclSuccess || handle == NULL) return result;
  return nccl_result(coll_mem_deregister(handle), "ncclCommDeregister");
}
NCCL_ALIAS(ncclCommDeregister);

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *ptr, size_t bytes, ncclWindow_t *window,
                                    int flags) {
  static const char function[] = "ncclCommWindowRegister";
  (void)flags; /* they say how a GPU may use the window */
  if (window == NULL) {
    return nccl_group_note(nccl_fail(ncclInvalidArgument, "%s: win is NULL", function));
  }
  ncclWindow_t made = calloc(1, sizeof *made);
  if (made == NULL) return nccl_group_note(nccl_fail(ncclSystemError, "%s: no memory", function));
  ncclResult_t result = add(comm, ptr, bytes, function, &made->registration);
  if (result != ncclSuccess) {
    free(made);
    return nccl_group_note(result);
  }
  made->comm = comm;
  made->ptr = ptr;
  made->bytes = bytes;
  *window = made;
  return ncclSuccess;
}
NCCL_ALIAS(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  ncclResult_t result = nccl_handle_check(comm, "ncclCommWindowDeregister");
  if (result != ncclSuccess || window == NULL) return result;
  coll_status_t status = coll_mem_deregister(window->registration);
  free(window);
  return nccl_result(status, "ncclCommWindowDeregister");
}
NCCL_ALIAS(ncclCommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr) {
  ncclResult_t result = nccl_handle_check(comm, "ncclWinGetUserPtr");
  if (result != ncclSuccess) return result;
  if (window == NULL || ptr == NULL) {
    return nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: %s is NULL",
                     window == NULL ? "win" : "the output");
  }
  *ptr = window->ptr;
  return ncclSuccess;
}
NCCL_ALIAS(ncclWinGetUserPtr);

/* This rank's own memory at the offset; that of others cannot be mapped by a program. */
static ncclResult_t own_pointer(ncclWindow_t window, size_t offset, bool own, void **ptr,
                                const char *function) {
  if (window == NULL || ptr == NULL || offset > window->bytes) {
    return nccl_fail(ncclInvalidArgument, "%s: %s", function,
                     window == NULL ? "the window is NULL"
                     : ptr == NULL  ? "the output is NULL"
                                    : "the offset is beyond the window's end");
  }
  if (!own) {
    return nccl_fail(ncclInvalidUsage, "%s: this library gives no access to other ranks' windows",
                     function);
  }
  *ptr = window->ptr + offset;
  return ncclSuccess;
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsa_rank, void **ptr) {
  return own_pointer(window, offset, lsa_rank == 0, ptr, "ncclGetLsaDevicePointer");
}
NCCL_ALIAS(ncclGetLsaDevicePointer);

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **ptr) {
  bool own = window != NULL && peer == window->comm->rank;
  return own_pointer(window, offset, own, ptr, "ncclGetPeerDevicePointer");
}
NCCL_ALIAS(ncclGetPeerDevicePointer);
