/*
 * The ranges of addresses that the driver knows, who may use them, and the files behind memory of
 * devices.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/standin/state.h"

static bool contains(const region_t *region, uintptr_t address) {
  return address >= region->base && address - region->base < region->bytes;
}

region_t *standin_region(uintptr_t address) {
  region_t *reserved = NULL;
  for (region_t *r = standin.regions; r != NULL; r = r->next) {
    if (!contains(r, address)) continue;
    if (r->kind != REGION_RESERVED) return r;
    reserved = r;
  }
  return reserved;
}

region_t *standin_region_add(region_kind_t kind, uintptr_t base, size_t bytes, int device) {
  region_t *region = calloc(1, sizeof *region);
  if (region == NULL) abort();
  region->kind = kind;
  region->base = base;
  region->bytes = bytes;
  region->device = device;
  region->id = ++standin.last_id;
  region->next = standin.regions;
  standin.regions = region;
  return region;
}

void standin_region_remove(region_t *region) {
  region_t **link = &standin.regions;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  free(region);
}

/* ---- access ----------------------------------------------------------------------------------*/

static bool region_accessible(const region_t *region, cuda_context_t context, bool write) {
  int device = context->device;
  switch (region->kind) {
    case REGION_RESERVED: return false;
    case REGION_MAPPING: return (region->access[device] & (write ? 2 : CUDA_ACCESS_READ)) != 0;
    case REGION_DEVICE:
    case REGION_IPC: return region->device == device || context->peers[region->device];
    default: return true;
  }
}

/* Whether the range has no byte that the driver knows. */
static bool unknown(uintptr_t address, size_t bytes) {
  for (region_t *r = standin.regions; r != NULL; r = r->next) {
    if (address < r->base + r->bytes && r->base < address + bytes) return false;
  }
  return true;
}

bool standin_accessible(cuda_context_t context, uintptr_t address, size_t bytes, bool write,
                        bool plain) {
  if (plain && unknown(address, bytes)) return address != 0 || bytes == 0;
  while (bytes > 0) {
    region_t *region = standin_region(address);
    if (region == NULL || !region_accessible(region, context, write)) return false;
    size_t rest = region->base + region->bytes - address;
    if (rest >= bytes) return true;
    address += rest;
    bytes -= rest;
  }
  return true;
}

/* ---- files -----------------------------------------------------------------------------------*/

/* The name says whose memory it is, as every process that has the descriptor can read it. */
int standin_memfd(int device, size_t bytes, unsigned handle_types) {
  char name[64];
  snprintf(name, sizeof name, "coll-standin-gpu-%d-%u", standin.gpus[device], handle_types);
  int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  if (ftruncate(descriptor, (off_t)bytes) == 0) return descriptor;
  close(descriptor);
  return -1;
}

bool standin_memfd_read(int descriptor, int *gpu, size_t *bytes, unsigned *handle_types) {
  static const char prefix[] = "/memfd:coll-standin-gpu-";
  char path[64], name[128];
  struct stat status;
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(path, name, sizeof name - 1);
  if (length <= 0 || fstat(descriptor, &status) != 0) return false;
  name[length] = '\0';
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
  char *end;
  *gpu = (int)strtol(name + sizeof prefix - 1, &end, 10);
  if (*end != '-') return false;
  *handle_types = (unsigned)strtoul(end + 1, &end, 10);
  *bytes = (size_t)status.st_size;
  return true;
}

void standin_physical_drop(physical_t *physical) {
  if (physical->handles > 0 || physical->mappings > 0) return;
  physical_t **link = &standin.physicals;
  while (*link != physical) link = &(*link)->next;
  *link = physical->next;
  if (!physical->imported) standin.used[standin_ordinal(physical->gpu)] -= physical->bytes;
  close(physical->descriptor);
  free(physical);
}
