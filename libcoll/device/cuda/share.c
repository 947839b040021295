/* Each kind of allocation by the functions that the driver has for it. */
#include "device/cuda/share.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 384

/* ---- describing ------------------------------------------------------------------------------*/

static coll_status_t find_allocation(const cuda_driver_t *driver, int device, uint64_t address,
                                     size_t bytes, cuda_share_t *share) {
  cuda_ptr_t base;
  size_t all;
  COLL_TRY(cuda_driver_check(driver, driver->cuMemGetAddressRange(&base, &all, address),
                             "cuMemGetAddressRange", device));
  *share = (cuda_share_t){.way = CUDA_SHARE_PRIVATE,
                          .device = device,
                          .base = base,
                          .bytes = all,
                          .offset = address - base};
  if (bytes <= all && address - base <= all - bytes) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "%zu bytes at %#llx of GPU %d are in several allocations, of which the first "
                   "ends after %zu bytes: use memory that was allocated at once",
                   bytes, (unsigned long long)address, device, all - (size_t)(address - base));
}

/* Whether descriptors of the memory can be made; it was allocated for that or not. */
static coll_status_t find_handle(const cuda_driver_t *driver, cuda_mem_t handle,
                                 cuda_share_t *share) {
  cuda_mem_prop_t prop;
  share->is_virtual = true;
  COLL_TRY(cuda_driver_check(driver, driver->cuMemGetAllocationPropertiesFromHandle(&prop, handle),
                             "cuMemGetAllocationPropertiesFromHandle", share->device));
  if (((unsigned)prop.handle_types & CUDA_HANDLE_POSIX) != 0) {
    share->way = CUDA_SHARE_DESCRIPTOR;
  } else {
    base_fail(COLL_ERROR_UNSUPPORTED,
              "the memory at %#llx of GPU %d was allocated without file descriptors "
              "(cuMemCreate, requestedHandleTypes), so other processes cannot map it",
              (unsigned long long)share->base, share->device);
  }
  return COLL_OK;
}

static void find_ipc(const cuda_driver_t *driver, cuda_share_t *share) {
  char text[TEXT_BYTES];
  cuda_result_t result = driver->cuIpcGetMemHandle(&share->ipc, share->base);
  if (result == CUDA_RESULT_OK) {
    share->way = CUDA_SHARE_IPC;
    return;
  }
  (void)cuda_driver_check(driver, result, "cuIpcGetMemHandle", share->device);
  snprintf(text, sizeof text, "%s", base_last_error());
  base_fail(COLL_ERROR_UNSUPPORTED,
            "other processes cannot map the memory at %#llx of GPU %d (is it of a memory pool?): "
            "%s",
            (unsigned long long)share->base, share->device, text);
}

static coll_status_t describe(const cuda_driver_t *driver, int device, uint64_t address,
                              size_t bytes, cuda_share_t *share) {
  cuda_mem_t handle;
  COLL_TRY(find_allocation(driver, device, address, bytes, share));
  if (driver->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)share->base) !=
      CUDA_RESULT_OK) {
    find_ipc(driver, share);
    return COLL_OK;
  }
  coll_status_t status = find_handle(driver, handle, share);
  (void)driver->cuMemRelease(handle);
  return status;
}

coll_status_t cuda_share_describe(const cuda_driver_t *driver, int device, const void *ptr,
                                  size_t bytes, cuda_share_t *share) {
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, device, &mode));
  coll_status_t status = describe(driver, device, (uint64_t)(uintptr_t)ptr, bytes, share);
  cuda_context_leave_relaxed(driver, device, mode);
  return status;
}

coll_status_t cuda_share_export(const cuda_driver_t *driver, const cuda_share_t *share,
                                int *descriptor) {
  cuda_memory_t memory = {.device = share->device};
  COLL_TRY(cuda_driver_check(
      driver, driver->cuMemRetainAllocationHandle(&memory.handle, (void *)(uintptr_t)share->base),
      "cuMemRetainAllocationHandle", share->device));
  coll_status_t status = cuda_memory_export(driver, &memory, descriptor);
  (void)driver->cuMemRelease(memory.handle);
  return status;
}

/* ---- mapping ---------------------------------------------------------------------------------*/

static coll_status_t open_ipc(const cuda_driver_t *driver, int device, const cuda_share_t *share,
                              cuda_mapping_t *mapping) {
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, device, &mode));
  cuda_result_t result =
      driver->cuIpcOpenMemHandle(&mapping->opened, share->ipc, CUDA_IPC_LAZY_PEER_ACCESS);
  coll_status_t status = cuda_driver_check(driver, result, "cuIpcOpenMemHandle", device);
  if (status != COLL_OK) {
    mapping->opened = 0;
    cuda_context_leave_relaxed(driver, device, mode);
    return status;
  }
  /* Kept for the mapping, as those of memory.h keep theirs. */
  cuda_context_t context;
  result = driver->cuDevicePrimaryCtxRetain(&context, device);
  status = cuda_driver_check(driver, result, "cuDevicePrimaryCtxRetain", device);
  if (status != COLL_OK) {
    (void)driver->cuIpcCloseMemHandle(mapping->opened);
    mapping->opened = 0;
  }
  cuda_context_leave_relaxed(driver, device, mode);
  return status;
}

coll_status_t cuda_share_map(const cuda_driver_t *driver, int device, const cuda_share_t *share,
                             int descriptor, cuda_mapping_t *mapping) {
  *mapping = (cuda_mapping_t){.device = device};
  if (share->way == CUDA_SHARE_IPC) {
    COLL_TRY(open_ipc(driver, device, share, mapping));
    mapping->address = mapping->opened + share->offset;
    return COLL_OK;
  }
  COLL_TRY(cuda_memory_import(driver, device, descriptor, share->bytes, &mapping->memory));
  mapping->address = mapping->memory.address + share->offset;
  return COLL_OK;
}

/* Adds the device to those that can access the allocation. */
static coll_status_t grant(const cuda_driver_t *driver, int device, const cuda_share_t *share) {
  const cuda_access_desc_t desc = {{CUDA_LOCATION_DEVICE, device}, CUDA_ACCESS_READ_WRITE};
  unsigned long long access = 0;
  COLL_TRY(cuda_driver_check(driver, driver->cuMemGetAccess(&access, &desc.location, share->base),
                             "cuMemGetAccess", device));
  if (access == CUDA_ACCESS_READ_WRITE) return COLL_OK;
  return cuda_driver_check(driver, driver->cuMemSetAccess(share->base, share->bytes, &desc, 1),
                           "cuMemSetAccess", device);
}

/* Lets the device's context access all memory of the other device's. */
static coll_status_t enable_peer(const cuda_driver_t *driver, int device, int owner) {
  cuda_context_t context;
  COLL_TRY(cuda_driver_check(driver, driver->cuDevicePrimaryCtxRetain(&context, owner),
                             "cuDevicePrimaryCtxRetain", owner));
  cuda_result_t result = driver->cuCtxEnablePeerAccess(context, 0);
  (void)driver->cuDevicePrimaryCtxRelease(owner); /* the memory keeps it */
  if (result == CUDA_RESULT_PEER_ACCESS_ALREADY_ENABLED) return COLL_OK;
  return cuda_driver_check(driver, result, "cuCtxEnablePeerAccess", device);
}

coll_status_t cuda_share_open(const cuda_driver_t *driver, int device, const cuda_share_t *share,
                              cuda_mapping_t *mapping) {
  int can = 1;
  *mapping = (cuda_mapping_t){.address = share->base + share->offset, .device = device};
  if (device == share->device) return COLL_OK;
  COLL_TRY(cuda_driver_check(driver, driver->cuDeviceCanAccessPeer(&can, device, share->device),
                             "cuDeviceCanAccessPeer", device));
  if (!can) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "GPU %d cannot access the memory of GPU %d (see nvidia-smi topo -p2p r)",
                     device, share->device);
  }
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, device, &mode));
  coll_status_t status =
      share->is_virtual ? grant(driver, device, share) : enable_peer(driver, device, share->device);
  cuda_context_leave_relaxed(driver, device, mode);
  return status;
}

coll_status_t cuda_share_unmap(const cuda_driver_t *driver, cuda_mapping_t *mapping) {
  cuda_mapping_t unmapped = *mapping;
  *mapping = (cuda_mapping_t){.device = unmapped.device};
  if (unmapped.opened == 0) return cuda_memory_free(driver, &unmapped.memory);
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, unmapped.device, &mode));
  cuda_result_t result = driver->cuIpcCloseMemHandle(unmapped.opened);
  cuda_context_leave_relaxed(driver, unmapped.device, mode);
  (void)driver->cuDevicePrimaryCtxRelease(unmapped.device);
  return cuda_driver_check(driver, result, "cuIpcCloseMemHandle", unmapped.device);
}
