/*
 * Memory of cuMemAlloc, pinned and managed memory, and CUDA IPC.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/standin/state.h"

#define ALLOCATION_ALIGNMENT ((size_t)65536)

static size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

static cuda_result_t allocate(cuda_context_t context, size_t bytes, region_t **region) {
  int device = context->device;
  size_t rounded = round_up(bytes, ALLOCATION_ALIGNMENT);
  if (bytes == 0) return CUDA_RESULT_INVALID_VALUE;
  if (rounded < bytes || rounded > standin.gpu_bytes - standin.used[device]) {
    return CUDA_RESULT_OUT_OF_MEMORY;
  }
  int descriptor = standin_memfd(device, rounded, CUDA_HANDLE_NONE);
  if (descriptor < 0) return CUDA_RESULT_OPERATING_SYSTEM;
  void *address = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    close(descriptor);
    return CUDA_RESULT_OUT_OF_MEMORY;
  }
  physical_t *physical = calloc(1, sizeof *physical);
  if (physical == NULL) abort();
  *physical = (physical_t){.descriptor = descriptor,
                           .gpu = standin.gpus[device],
                           .mappings = 1,
                           .bytes = rounded,
                           .next = standin.physicals};
  standin.physicals = physical;
  standin.used[device] += rounded;
  *region = standin_region_add(REGION_DEVICE, (uintptr_t)address, bytes, device);
  (*region)->physical = physical;
  (*region)->context = context;
  return CUDA_RESULT_OK;
}

/* Frees what the driver allocated itself, or mapped by IPC. */
static void release(region_t *region) {
  size_t bytes = region->bytes;
  if (standin_in_use(region->base, bytes)) standin_misuse("free of memory that queued work uses");
  if (region->kind == REGION_DEVICE) {
    bytes = region->physical->bytes;
    region->physical->mappings--;
    standin_physical_drop(region->physical);
  }
  if (region->kind != REGION_REGISTERED)
    munmap((void *)region->base, round_up(bytes, STANDIN_PAGE));
  standin_region_remove(region);
}

void standin_memory_destroy_all(cuda_context_t context, bool reset) {
  region_t *next;
  for (region_t *r = standin.regions; r != NULL; r = next) {
    next = r->next;
    if (r->context != context) continue;
    if (!reset) {
      standin_misuse("memory was still allocated when the context of GPU %d was destroyed",
                     context->device);
    }
    release(r);
  }
}

cuda_result_t cuMemAlloc_v2(cuda_ptr_t *address, size_t bytes) {
  cuda_context_t context;
  region_t *region;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  result = allocate(context, bytes, &region);
  if (result == CUDA_RESULT_OK) *address = region->base;
  return standin_leave(result);
}

/* The region that begins there, of one of two kinds. */
static region_t *at(uintptr_t address, region_kind_t kind, region_kind_t other) {
  region_t *region = standin_region(address);
  if (region == NULL || region->base != address) return NULL;
  return region->kind == kind || region->kind == other ? region : NULL;
}

static cuda_result_t free_at(uintptr_t address, region_kind_t kind, region_kind_t other,
                             const char *function, cuda_result_t unknown) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = at(address, kind, other);
  if (region == NULL) {
    standin_misuse("%s of memory that is not allocated, or was freed", function);
    return standin_leave(unknown);
  }
  /* The driver waits for the work of the device. */
  if (region->context != NULL) standin_drain(region->context);
  region = at(address, kind, other);
  if (region != NULL) release(region);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemFree_v2(cuda_ptr_t address) {
  if (address == 0) return CUDA_RESULT_OK;
  return free_at(address, REGION_DEVICE, REGION_MANAGED, "cuMemFree", CUDA_RESULT_INVALID_VALUE);
}

/* ---- in the order of a stream ----------------------------------------------------------------*/

/* The memory is there at once, which is more than the stream may rely on. */
cuda_result_t cuMemAllocAsync(cuda_ptr_t *address, size_t bytes, cuda_stream_t stream) {
  cuda_capture_status_t status;
  cuda_result_t result = cuStreamIsCapturing(stream, &status);
  if (result != CUDA_RESULT_OK) return result;
  return status == CUDA_CAPTURE_NONE ? cuMemAlloc_v2(address, bytes) : CUDA_RESULT_NOT_SUPPORTED;
}

cuda_result_t cuMemFreeAsync(cuda_ptr_t address, cuda_stream_t handle) {
  cuda_context_t context;
  operation_t o = {.kind = OPERATION_FREE, .dst = address};
  if (address == 0) return CUDA_RESULT_OK;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  cuda_stream_t stream = standin_stream(context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  if (at(address, REGION_DEVICE, REGION_DEVICE) == NULL) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  return standin_leave(standin_queue(stream, &o));
}

bool standin_free_queued(uintptr_t address) {
  region_t *region = at(address, REGION_DEVICE, REGION_DEVICE);
  if (region == NULL) return false;
  release(region);
  return true;
}

/* ---- questions -------------------------------------------------------------------------------*/

cuda_result_t cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  *free_bytes = standin.gpu_bytes - standin.used[context->device];
  *total_bytes = standin.gpu_bytes;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemGetAddressRange_v2(cuda_ptr_t *base, size_t *bytes, cuda_ptr_t address) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = standin_region(address);
  if (region == NULL || region->kind == REGION_RESERVED || region->kind == REGION_REGISTERED) {
    return standin_leave(CUDA_RESULT_NOT_FOUND);
  }
  if (base != NULL) *base = region->base;
  if (bytes != NULL) *bytes = region->bytes;
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- host memory -----------------------------------------------------------------------------*/

static cuda_result_t allocate_host(region_kind_t kind, size_t bytes, uintptr_t *address) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (bytes == 0) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  void *memory = mmap(NULL, round_up(bytes, STANDIN_PAGE), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  *address = (uintptr_t)memory;
  standin_region_add(kind, *address, bytes, context->device)->context = context;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  uintptr_t memory = 0;
  if (flags > 7) return CUDA_RESULT_INVALID_VALUE;
  cuda_result_t result = allocate_host(REGION_HOST, bytes, &memory);
  if (result == CUDA_RESULT_OK) *address = (void *)memory;
  return result;
}

cuda_result_t cuMemAllocManaged(cuda_ptr_t *address, size_t bytes, unsigned flags) {
  uintptr_t memory = 0;
  if (flags != CUDA_MANAGED_GLOBAL && flags != 2) return CUDA_RESULT_INVALID_VALUE;
  cuda_result_t result = allocate_host(REGION_MANAGED, bytes, &memory);
  if (result == CUDA_RESULT_OK) *address = memory;
  return result;
}

cuda_result_t cuMemFreeHost(void *address) {
  return free_at((uintptr_t)address, REGION_HOST, REGION_HOST, "cuMemFreeHost",
                 CUDA_RESULT_INVALID_VALUE);
}

cuda_result_t cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (address == NULL || bytes == 0 || flags > 15) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  for (region_t *r = standin.regions; r != NULL; r = r->next) {
    if ((uintptr_t)address < r->base + r->bytes && r->base < (uintptr_t)address + bytes) {
      return standin_leave(CUDA_RESULT_HOST_MEMORY_ALREADY_REGISTERED);
    }
  }
  standin_region_add(REGION_REGISTERED, (uintptr_t)address, bytes, context->device)->context =
      context;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemHostUnregister(void *address) {
  return free_at((uintptr_t)address, REGION_REGISTERED, REGION_REGISTERED, "cuMemHostUnregister",
                 CUDA_RESULT_HOST_MEMORY_NOT_REGISTERED);
}

cuda_result_t cuMemHostGetDevicePointer_v2(cuda_ptr_t *device_address, void *address,
                                           unsigned flags) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = standin_region((uintptr_t)address);
  if (flags != 0 || region == NULL ||
      (region->kind != REGION_HOST && region->kind != REGION_REGISTERED)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  *device_address = (uintptr_t)address;
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- CUDA IPC --------------------------------------------------------------------------------*/

typedef struct ipc {
  int pid, descriptor;
  size_t bytes;
} ipc_t;

cuda_result_t cuIpcGetMemHandle(cuda_ipc_handle_t *handle, cuda_ptr_t address) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = standin_region(address);
  if (region == NULL || region->kind != REGION_DEVICE) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  ipc_t ipc = {getpid(), region->physical->descriptor, region->bytes};
  memset(handle, 0, sizeof *handle);
  memcpy(handle->bytes, &ipc, sizeof ipc);
  return standin_leave(CUDA_RESULT_OK);
}

static cuda_result_t open_ipc(cuda_context_t context, const ipc_t *ipc, cuda_ptr_t *address) {
  char path[64];
  int gpu, device;
  size_t bytes;
  unsigned handle_types;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", ipc->pid, ipc->descriptor);
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return CUDA_RESULT_INVALID_VALUE;
  void *memory = MAP_FAILED;
  if (standin_memfd_read(descriptor, &gpu, &bytes, &handle_types) && ipc->bytes <= bytes) {
    memory = mmap(NULL, ipc->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  close(descriptor);
  if (memory == MAP_FAILED) return CUDA_RESULT_INVALID_VALUE;
  device = standin_ordinal(gpu);
  if (device < 0 || !standin_reaches(standin.gpus[context->device], gpu)) {
    munmap(memory, ipc->bytes);
    return CUDA_RESULT_PEER_ACCESS_UNSUPPORTED;
  }
  if (device != context->device) context->peers[device] = true;
  standin_region_add(REGION_IPC, (uintptr_t)memory, ipc->bytes, device)->context = context;
  *address = (uintptr_t)memory;
  return CUDA_RESULT_OK;
}

cuda_result_t cuIpcOpenMemHandle_v2(cuda_ptr_t *address, cuda_ipc_handle_t handle, unsigned flags) {
  cuda_context_t context;
  ipc_t ipc;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  memcpy(&ipc, handle.bytes, sizeof ipc);
  if (flags != CUDA_IPC_LAZY_PEER_ACCESS) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  if (ipc.pid == getpid()) return standin_leave(CUDA_RESULT_INVALID_CONTEXT);
  return standin_leave(open_ipc(context, &ipc, address));
}

cuda_result_t cuIpcCloseMemHandle(cuda_ptr_t address) {
  return free_at(address, REGION_IPC, REGION_IPC, "cuIpcCloseMemHandle", CUDA_RESULT_INVALID_VALUE);
}
