/*
 * Memory that peers can map, and registrations.
 */
#include "frontends/nccl/driver.h"
#include "frontends/nccl/group.h"
#include "frontends/nccl/windows.h"

/* Memory of the thread's GPU; without one, or if that cannot share memory, memory of the host. */
ncclResult_t ncclMemAlloc(void **ptr, size_t bytes) {
  if (ptr == NULL) return nccl_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
  int device = nccl_driver_find() ? nccl_driver_device() : -1;
  coll_status_t status = coll_mem_alloc(device, bytes, ptr);
  if (status == COLL_ERROR_UNSUPPORTED) status = coll_mem_alloc(COLL_DEVICE_HOST, bytes, ptr);
  return nccl_result(status, "ncclMemAlloc");
}
NCCL_ALIAS(ncclMemAlloc);

ncclResult_t ncclMemFree(void *ptr) {
  return ptr == NULL ? ncclSuccess : nccl_result(coll_mem_free(ptr), "ncclMemFree");
}
NCCL_ALIAS(ncclMemFree);

ncclResult_t nccl_window_register(ncclComm_t comm, void *ptr, size_t bytes, const char *function,
                                  coll_registration_t *made) {
  ncclResult_t result = nccl_handle_check_ready(comm, function);
  if (result != ncclSuccess) return result;
  *made = NULL;
  if (nccl_driver_memory(ptr) == NCCL_MEMORY_DEVICE) return ncclSuccess;
  return nccl_result(coll_mem_register(comm->comm, ptr, bytes, made), function);
}

static char device_handle[] = "memory of a GPU"; /* what programs get for that */

ncclResult_t ncclCommRegister(ncclComm_t comm, void *ptr, size_t bytes, void **handle) {
  coll_registration_t made;
  if (handle == NULL) return nccl_fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL");
  ncclResult_t result = nccl_window_register(comm, ptr, bytes, "ncclCommRegister", &made);
  if (result == ncclSuccess) *handle = made != NULL ? (void *)made : device_handle;
  return result;
}
NCCL_ALIAS(ncclCommRegister);

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
  ncclResult_t result = nccl_handle_check(comm, "ncclCommDeregister");
  if (result != ncclSuccess || handle == NULL || handle == device_handle) return result;
  if (coll_mem_deregister(handle) == COLL_OK) return ncclSuccess;
  return nccl_fail(ncclInvalidUsage, "ncclCommDeregister: %s", coll_last_error(NULL));
}
NCCL_ALIAS(ncclCommDeregister);
