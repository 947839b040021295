/*
 * Virtual memory management: physical memory is a memfd, a reservation is a range without access,
 * and a mapping has none either until cuMemSetAccess.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/standin/state.h"

static bool aligned(uint64_t value) {
  return value % STANDIN_GRANULARITY == 0;
}

/* Enters; the devices have virtual memory management. */
static cuda_result_t enter(void) {
  cuda_result_t result = standin_enter();
  if (result != CUDA_RESULT_OK || standin.vmm) return result;
  return standin_leave(CUDA_RESULT_NOT_SUPPORTED);
}

static cuda_result_t check_prop(const cuda_mem_prop_t *prop) {
  if (prop == NULL || prop->kind != CUDA_MEM_PINNED ||
      prop->location.type != CUDA_LOCATION_DEVICE || prop->win32 != NULL ||
      prop->compression != 0 || prop->usage != 0) {
    return CUDA_RESULT_INVALID_VALUE;
  }
  if (prop->location.id < 0 || prop->location.id >= standin.device_count) {
    return CUDA_RESULT_INVALID_DEVICE;
  }
  unsigned types = prop->handle_types;
  return types == CUDA_HANDLE_NONE || types == CUDA_HANDLE_POSIX ? CUDA_RESULT_OK
                                                                 : CUDA_RESULT_NOT_SUPPORTED;
}

cuda_result_t cuMemGetAllocationGranularity(size_t *bytes, const cuda_mem_prop_t *prop,
                                            cuda_granularity_t option) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  result = check_prop(prop);
  if (bytes == NULL || option > CUDA_GRANULARITY_RECOMMENDED) result = CUDA_RESULT_INVALID_VALUE;
  if (result == CUDA_RESULT_OK) *bytes = STANDIN_GRANULARITY;
  return standin_leave(result);
}

/* ---- addresses -------------------------------------------------------------------------------*/

cuda_result_t cuMemAddressReserve(cuda_ptr_t *address, size_t bytes, size_t alignment,
                                  cuda_ptr_t hint, unsigned long long flags) {
  (void)hint;
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  if (alignment < STANDIN_GRANULARITY) alignment = STANDIN_GRANULARITY;
  if (address == NULL || bytes == 0 || !aligned(bytes) || flags != 0 ||
      (alignment & (alignment - 1)) != 0) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  char *range =
      mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  size_t before = (alignment - (uintptr_t)range % alignment) % alignment;
  if (before > 0) munmap(range, before);
  if (alignment > before) munmap(range + before + bytes, alignment - before);
  standin_region_add(REGION_RESERVED, (uintptr_t)range + before, bytes, -1);
  *address = (uintptr_t)range + before;
  return standin_leave(CUDA_RESULT_OK);
}

/* The reservation that has the whole range. */
static region_t *reservation(cuda_ptr_t address, size_t bytes) {
  for (region_t *r = standin.regions; r != NULL; r = r->next) {
    if (r->kind == REGION_RESERVED && address >= r->base && bytes <= r->bytes &&
        address - r->base <= r->bytes - bytes) {
      return r;
    }
  }
  return NULL;
}

static bool any_mapping(cuda_ptr_t address, size_t bytes) {
  for (region_t *r = standin.regions; r != NULL; r = r->next) {
    if (r->kind == REGION_MAPPING && address < r->base + r->bytes && r->base < address + bytes) {
      return true;
    }
  }
  return false;
}

cuda_result_t cuMemAddressFree(cuda_ptr_t address, size_t bytes) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = reservation(address, bytes);
  if (region == NULL || region->base != address || region->bytes != bytes ||
      any_mapping(address, bytes)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  munmap((void *)(uintptr_t)address, bytes);
  standin_region_remove(region);
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- physical memory -------------------------------------------------------------------------*/

static physical_t *find(cuda_mem_t handle) {
  for (physical_t *p = standin.physicals; p != NULL; p = p->next) {
    if (p->handle == handle && p->handles > 0) return p;
  }
  return NULL;
}

static physical_t *add(int descriptor, int gpu, size_t bytes, unsigned handle_types) {
  physical_t *physical = calloc(1, sizeof *physical);
  if (physical == NULL) abort();
  physical->handle = 0x600d0000u + ++standin.last_id;
  physical->descriptor = descriptor;
  physical->gpu = gpu;
  physical->bytes = bytes;
  physical->handle_types = handle_types;
  physical->handles = 1;
  physical->next = standin.physicals;
  standin.physicals = physical;
  return physical;
}

cuda_result_t cuMemCreate(cuda_mem_t *handle, size_t bytes, const cuda_mem_prop_t *prop,
                          unsigned long long flags) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  result = check_prop(prop);
  if (result != CUDA_RESULT_OK) return standin_leave(result);
  if (handle == NULL || bytes == 0 || !aligned(bytes) || flags != 0) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  int device = prop->location.id;
  if (bytes > standin.gpu_bytes - standin.used[device]) {
    return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  }
  int descriptor = standin_memfd(device, bytes, prop->handle_types);
  if (descriptor < 0) return standin_leave(CUDA_RESULT_OPERATING_SYSTEM);
  standin.used[device] += bytes;
  *handle = add(descriptor, standin.gpus[device], bytes, prop->handle_types)->handle;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemRelease(cuda_mem_t handle) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  physical_t *physical = find(handle);
  if (physical == NULL) {
    standin_misuse("cuMemRelease of a handle that does not exist, or was released");
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  physical->handles--;
  standin_physical_drop(physical);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemRetainAllocationHandle(cuda_mem_t *handle, void *address) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = standin_region((uintptr_t)address);
  if (region == NULL || region->kind != REGION_MAPPING) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  region->physical->handles++;
  *handle = region->physical->handle;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemGetAllocationPropertiesFromHandle(cuda_mem_prop_t *prop, cuda_mem_t handle) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  physical_t *physical = find(handle);
  if (physical == NULL) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  memset(prop, 0, sizeof *prop);
  prop->kind = CUDA_MEM_PINNED;
  prop->handle_types = (cuda_handle_type_t)physical->handle_types;
  prop->location = (cuda_location_t){CUDA_LOCATION_DEVICE, standin_ordinal(physical->gpu)};
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemExportToShareableHandle(void *shareable, cuda_mem_t handle,
                                           cuda_handle_type_t type, unsigned long long flags) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  physical_t *physical = find(handle);
  if (physical == NULL || shareable == NULL || flags != 0 || type != CUDA_HANDLE_POSIX ||
      (physical->handle_types & CUDA_HANDLE_POSIX) == 0) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  int descriptor = fcntl(physical->descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return standin_leave(CUDA_RESULT_OPERATING_SYSTEM);
  *(int *)shareable = descriptor;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemImportFromShareableHandle(cuda_mem_t *handle, void *shareable,
                                             cuda_handle_type_t type) {
  int gpu, descriptor = (int)(intptr_t)shareable;
  size_t bytes;
  unsigned handle_types;
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  if (handle == NULL || type != CUDA_HANDLE_POSIX ||
      !standin_memfd_read(descriptor, &gpu, &bytes, &handle_types)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return standin_leave(CUDA_RESULT_OPERATING_SYSTEM);
  physical_t *physical = add(descriptor, gpu, bytes, handle_types);
  physical->imported = true;
  *handle = physical->handle;
  return standin_leave(CUDA_RESULT_OK);
}

/* ---- mappings --------------------------------------------------------------------------------*/

cuda_result_t cuMemMap(cuda_ptr_t address, size_t bytes, size_t offset, cuda_mem_t handle,
                       unsigned long long flags) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  physical_t *physical = find(handle);
  if (physical == NULL || bytes == 0 || !aligned(bytes) || !aligned(address) || offset != 0 ||
      flags != 0 || bytes > physical->bytes || reservation(address, bytes) == NULL ||
      any_mapping(address, bytes)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  if (mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
           physical->descriptor, 0) == MAP_FAILED) {
    return standin_leave(CUDA_RESULT_OPERATING_SYSTEM);
  }
  region_t *region =
      standin_region_add(REGION_MAPPING, address, bytes, standin_ordinal(physical->gpu));
  region->physical = physical;
  physical->mappings++;
  return standin_leave(CUDA_RESULT_OK);
}

/* Whether whole mappings fill the range. */
static bool whole_mappings(cuda_ptr_t address, size_t bytes) {
  while (bytes > 0) {
    region_t *region = standin_region(address);
    if (region == NULL || region->kind != REGION_MAPPING || region->base != address ||
        region->bytes > bytes) {
      return false;
    }
    address += region->bytes;
    bytes -= region->bytes;
  }
  return true;
}

cuda_result_t cuMemUnmap(cuda_ptr_t address, size_t bytes) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  if (bytes == 0 || !whole_mappings(address, bytes)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  if (standin_in_use(address, bytes)) standin_misuse("cuMemUnmap of memory that queued work uses");
  for (size_t done = 0; done < bytes;) {
    region_t *region = standin_region(address + done);
    physical_t *physical = region->physical;
    done += region->bytes;
    standin_region_remove(region);
    physical->mappings--;
    standin_physical_drop(physical);
  }
  void *range = mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return standin_leave(range == MAP_FAILED ? CUDA_RESULT_OPERATING_SYSTEM : CUDA_RESULT_OK);
}

static cuda_result_t check_access(const cuda_access_desc_t *desc, cuda_ptr_t address,
                                  size_t bytes) {
  int device = desc->location.id;
  if (desc->location.type != CUDA_LOCATION_DEVICE || device < 0 || device >= standin.device_count) {
    return CUDA_RESULT_INVALID_DEVICE;
  }
  if (desc->flags != CUDA_ACCESS_NONE && desc->flags != CUDA_ACCESS_READ &&
      desc->flags != CUDA_ACCESS_READ_WRITE) {
    return CUDA_RESULT_INVALID_VALUE;
  }
  for (size_t done = 0; done < bytes;) {
    region_t *region = standin_region(address + done);
    if (!standin_reaches(standin.gpus[device], region->physical->gpu)) {
      return CUDA_RESULT_INVALID_DEVICE;
    }
    done += region->bytes;
  }
  return CUDA_RESULT_OK;
}

/* The process is all devices at once: a page has the access of the one that may do most. */
static void protect(const region_t *region) {
  int access = 0, protection = PROT_NONE;
  for (int i = 0; i < STANDIN_GPUS_MAX; i++) access |= region->access[i];
  if (access != 0) protection = (access & 2) != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  mprotect((void *)region->base, region->bytes, protection);
}

cuda_result_t cuMemSetAccess(cuda_ptr_t address, size_t bytes, const cuda_access_desc_t *descs,
                             size_t count) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  if (bytes == 0 || descs == NULL || count == 0 || !whole_mappings(address, bytes)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  for (size_t i = 0; i < count; i++) {
    result = check_access(&descs[i], address, bytes);
    if (result != CUDA_RESULT_OK) return standin_leave(result);
  }
  for (size_t done = 0; done < bytes;) {
    region_t *region = standin_region(address + done);
    for (size_t i = 0; i < count; i++) {
      region->access[descs[i].location.id] = (unsigned char)descs[i].flags;
    }
    protect(region);
    done += region->bytes;
  }
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemGetAccess(unsigned long long *flags, const cuda_location_t *location,
                             cuda_ptr_t address) {
  cuda_result_t result = enter();
  if (result != CUDA_RESULT_OK) return result;
  region_t *region = standin_region(address);
  if (region == NULL || region->kind != REGION_MAPPING || location->type != CUDA_LOCATION_DEVICE ||
      location->id < 0 || location->id >= standin.device_count) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  *flags = region->access[location->id];
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuMemGetHandleForAddressRange(void *handle, cuda_ptr_t address, size_t bytes,
                                            cuda_range_handle_t type, unsigned long long flags) {
  (void)handle, (void)address, (void)bytes, (void)type, (void)flags;
  return CUDA_RESULT_NOT_SUPPORTED;
}
