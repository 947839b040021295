/* Allocates, maps, exports and imports memory of GPUs. */
#include "device/cuda/memory.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

#define DEVICES_MAX 64

static coll_status_t require(const cuda_driver_t *driver, int device, cuda_attribute_t attribute,
                             const char *what) {
  int has = 0;
  COLL_TRY(cuda_driver_check(driver, driver->cuDeviceGetAttribute(&has, attribute, device),
                             "cuDeviceGetAttribute", device));
  if (has != 0) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED, "GPU %d has no %s, so its memory cannot be shared",
                   device, what);
}

coll_status_t cuda_memory_check_sharing(const cuda_driver_t *driver, int device) {
  COLL_TRY(require(driver, device, CUDA_ATTRIBUTE_VMM, "virtual memory management"));
  return require(driver, device, CUDA_ATTRIBUTE_HANDLE_POSIX, "file descriptors of memory");
}

/* Keeps the context that cuda_context_enter entered until cuda_memory_free, so that releases by
 * others do not destroy it while the memory is mapped. */
static coll_status_t keep_context(const cuda_driver_t *driver, int device, cuda_memory_t *memory) {
  cuda_context_t context;
  memory->context = device;
  return cuda_driver_check(driver, driver->cuDevicePrimaryCtxRetain(&context, device),
                           "cuDevicePrimaryCtxRetain", device);
}

/* What memory is asked for: shareable, and open to network cards where the device supports that. */
static coll_status_t describe(const cuda_driver_t *driver, int device, cuda_mem_prop_t *prop) {
  int rdma = 0;
  COLL_TRY(cuda_driver_check_device(driver, device));
  COLL_TRY(cuda_memory_check_sharing(driver, device));
  cuda_result_t result = driver->cuDeviceGetAttribute(&rdma, CUDA_ATTRIBUTE_RDMA_WITH_VMM, device);
  memset(prop, 0, sizeof *prop);
  prop->kind = CUDA_MEM_PINNED;
  prop->handle_types = CUDA_HANDLE_POSIX;
  prop->location = (cuda_location_t){CUDA_LOCATION_DEVICE, device};
  prop->rdma_capable = rdma != 0;
  return cuda_driver_check(driver, result, "cuDeviceGetAttribute", device);
}

/* Whether a GPU can access memory of `owner`. If this process does not see that one (see
 * CUDA_VISIBLE_DEVICES), it is `mapper` that may, and the driver refuses what cannot be. */
static coll_status_t can_access(const cuda_driver_t *driver, int device, int mapper, int owner,
                                int *can) {
  bool is_visible = owner >= 0 && owner < driver->device_count;
  *can = is_visible || device == mapper;
  if (device == owner || !is_visible) return COLL_OK;
  return cuda_driver_check(driver, driver->cuDeviceCanAccessPeer(can, device, owner),
                           "cuDeviceCanAccessPeer", device);
}

static coll_status_t grant_access(const cuda_driver_t *driver, const cuda_memory_t *memory,
                                  int device) {
  cuda_access_desc_t descs[DEVICES_MAX];
  size_t count = 0;
  int can;
  for (int i = 0; i < driver->device_count && i < DEVICES_MAX; i++) {
    COLL_TRY(can_access(driver, i, device, memory->device, &can));
    if (can) {
      descs[count++] = (cuda_access_desc_t){{CUDA_LOCATION_DEVICE, i}, CUDA_ACCESS_READ_WRITE};
    } else if (i == device) {
      return base_fail(COLL_ERROR_UNSUPPORTED,
                       "GPU %d cannot access the memory of GPU %d (see nvidia-smi topo -p2p r)", i,
                       memory->device);
    }
  }
  return cuda_driver_check(driver,
                           driver->cuMemSetAccess(memory->address, memory->bytes, descs, count),
                           "cuMemSetAccess", memory->device);
}

/* Maps memory->handle, of memory->bytes, at a new range of addresses. Undone on failure. */
static coll_status_t map(const cuda_driver_t *driver, cuda_memory_t *memory, int device) {
  cuda_ptr_t address;
  COLL_TRY(cuda_driver_check(driver, driver->cuMemAddressReserve(&address, memory->bytes, 0, 0, 0),
                             "cuMemAddressReserve", memory->device));
  memory->address = address;
  coll_status_t status = cuda_driver_check(
      driver, driver->cuMemMap(address, memory->bytes, 0, memory->handle, 0), "cuMemMap", device);
  if (status == COLL_OK) {
    status = grant_access(driver, memory, device);
    if (status != COLL_OK) (void)driver->cuMemUnmap(address, memory->bytes);
  }
  if (status != COLL_OK) {
    (void)driver->cuMemAddressFree(address, memory->bytes);
    memory->address = 0;
  }
  return status;
}

static coll_status_t clear_on_stream(const cuda_driver_t *driver, const cuda_memory_t *memory) {
  cuda_stream_t stream;
  COLL_TRY(cuda_driver_check(
      driver, driver->cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, 0),
      "cuStreamCreateWithPriority", memory->device));
  coll_status_t status =
      cuda_driver_check(driver, driver->cuMemsetD8Async(memory->address, 0, memory->bytes, stream),
                        "cuMemsetD8Async", memory->device);
  if (status == COLL_OK) {
    status = cuda_driver_check(driver, driver->cuStreamSynchronize(stream), "cuStreamSynchronize",
                               memory->device);
  }
  (void)driver->cuStreamDestroy(stream);
  return status;
}

/* Zeroes the memory in a stream of its own: the default stream would wait for the user's work. The
 * thread's mode lets it wait while a graph is captured elsewhere. */
static coll_status_t clear(const cuda_driver_t *driver, const cuda_memory_t *memory) {
  cuda_capture_mode_t mode = CUDA_CAPTURE_RELAXED;
  COLL_TRY(cuda_driver_check(driver, driver->cuThreadExchangeStreamCaptureMode(&mode),
                             "cuThreadExchangeStreamCaptureMode", memory->device));
  coll_status_t status = clear_on_stream(driver, memory);
  (void)driver->cuThreadExchangeStreamCaptureMode(&mode);
  return status;
}

static coll_status_t create(const cuda_driver_t *driver, const cuda_mem_prop_t *prop,
                            cuda_memory_t *memory) {
  COLL_TRY(cuda_driver_check(driver, driver->cuMemCreate(&memory->handle, memory->bytes, prop, 0),
                             "cuMemCreate", memory->device));
  coll_status_t status = map(driver, memory, memory->device);
  if (status != COLL_OK) (void)driver->cuMemRelease(memory->handle);
  return status;
}

/* Frees the memory after a failure, whose text stays. */
static void discard(const cuda_driver_t *driver, cuda_memory_t *memory) {
  (void)driver->cuMemUnmap(memory->address, memory->bytes);
  (void)driver->cuMemAddressFree(memory->address, memory->bytes);
  (void)driver->cuMemRelease(memory->handle);
  (void)driver->cuDevicePrimaryCtxRelease(memory->context);
  memset(memory, 0, sizeof *memory);
}

coll_status_t cuda_memory_alloc(const cuda_driver_t *driver, int device, size_t bytes,
                                cuda_memory_t *memory) {
  cuda_mem_prop_t prop;
  size_t granularity;
  memset(memory, 0, sizeof *memory);
  memory->device = device;
  COLL_TRY(describe(driver, device, &prop));
  COLL_TRY(cuda_driver_check(
      driver,
      driver->cuMemGetAllocationGranularity(&granularity, &prop, CUDA_GRANULARITY_RECOMMENDED),
      "cuMemGetAllocationGranularity", device));
  if (bytes == 0) bytes = 1;
  if (bytes > SIZE_MAX - granularity) {
    return base_fail(COLL_ERROR_MEMORY, "GPU %d has no %zu bytes", device, bytes);
  }
  memory->bytes = base_round_up(bytes, granularity);
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, device, &mode));
  coll_status_t status = keep_context(driver, device, memory);
  if (status == COLL_OK) {
    status = create(driver, &prop, memory);
    if (status != COLL_OK) (void)driver->cuDevicePrimaryCtxRelease(device);
  }
  if (status == COLL_OK) {
    status = clear(driver, memory);
    if (status != COLL_OK) discard(driver, memory);
  }
  cuda_context_leave_relaxed(driver, device, mode);
  return status;
}

coll_status_t cuda_memory_free(const cuda_driver_t *driver, cuda_memory_t *memory) {
  if (memory->address == 0) return COLL_OK;
  cuda_memory_t freed = *memory;
  memset(memory, 0, sizeof *memory);
  coll_status_t status = cuda_driver_check(driver, driver->cuMemUnmap(freed.address, freed.bytes),
                                           "cuMemUnmap", freed.device);
  if (status == COLL_OK) {
    status = cuda_driver_check(driver, driver->cuMemAddressFree(freed.address, freed.bytes),
                               "cuMemAddressFree", freed.device);
  }
  if (status == COLL_OK) {
    status =
        cuda_driver_check(driver, driver->cuMemRelease(freed.handle), "cuMemRelease", freed.device);
  }
  (void)driver->cuDevicePrimaryCtxRelease(freed.context);
  return status;
}

coll_status_t cuda_memory_export(const cuda_driver_t *driver, const cuda_memory_t *memory,
                                 int *descriptor) {
  return cuda_driver_check(
      driver,
      driver->cuMemExportToShareableHandle(descriptor, memory->handle, CUDA_HANDLE_POSIX, 0),
      "cuMemExportToShareableHandle", memory->device);
}

/* The GPU that has the memory may be one that this process does not see. */
static int owner_of(const cuda_driver_t *driver, cuda_mem_t handle) {
  cuda_mem_prop_t prop;
  cuda_result_t result = driver->cuMemGetAllocationPropertiesFromHandle(&prop, handle);
  bool is_visible =
      result == CUDA_RESULT_OK && prop.location.id >= 0 && prop.location.id < driver->device_count;
  return is_visible ? prop.location.id : CUDA_NO_DEVICE;
}

static coll_status_t import(const cuda_driver_t *driver, int device, cuda_memory_t *memory) {
  memory->device = owner_of(driver, memory->handle);
  COLL_TRY(keep_context(driver, device, memory));
  coll_status_t status = map(driver, memory, device);
  if (status != COLL_OK) (void)driver->cuDevicePrimaryCtxRelease(device);
  return status;
}

coll_status_t cuda_memory_import(const cuda_driver_t *driver, int device, int descriptor,
                                 size_t bytes, cuda_memory_t *memory) {
  memset(memory, 0, sizeof *memory);
  memory->bytes = bytes;
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_context_enter_relaxed(driver, device, &mode));
  /* The descriptor itself is passed where a pointer to a handle is declared. */
  coll_status_t status =
      cuda_driver_check(driver,
                        driver->cuMemImportFromShareableHandle(
                            &memory->handle, (void *)(uintptr_t)descriptor, CUDA_HANDLE_POSIX),
                        "cuMemImportFromShareableHandle", device);
  if (status == COLL_OK) {
    status = import(driver, device, memory);
    if (status != COLL_OK) (void)driver->cuMemRelease(memory->handle);
  }
  cuda_context_leave_relaxed(driver, device, mode);
  return status;
}
