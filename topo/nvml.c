/* Asks the library GPU by GPU and link by link. A function that fails means that there is nothing
 * to report. */
#include "topo/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/nvml_api.h"

typedef struct nvml {
#define MEMBER(name, arguments) nvml_return_t(*name) arguments;
  NVML_NEEDED(MEMBER)
  NVML_OPTIONAL(MEMBER)
#undef MEMBER
  void *library;
} nvml_t;

/* Sets a pointer to a function, which C cannot convert from a pointer to data. */
static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* False: the library, a function or the driver is missing. */
static bool start(nvml_t *nvml, const char *library) {
  bool complete = true;
  *nvml = (nvml_t){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
  if (nvml->library == NULL) return false;
#define FIND(name, arguments) complete = find(nvml->library, #name, &nvml->name) && complete;
  NVML_NEEDED(FIND)
#undef FIND
#define FIND(name, arguments) find(nvml->library, #name, &nvml->name);
  NVML_OPTIONAL(FIND)
#undef FIND
  if (complete && nvml->nvmlInit_v2() == NVML_OK) return true;
  dlclose(nvml->library);
  return false;
}

static int64_t address_of(const nvml_pci_info_t *info) {
  return topo_pci_address(info->domain, info->bus, info->device, 0);
}

/* GB/s per direction of a link. The versions are 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0; their rates are
 * those of the white papers of P100, V100, A100, H100 and B200. */
static double rate_of(const nvml_t *nvml, nvml_device_t gpu, unsigned link) {
  static const double rates[] = {25, 20, 25, 25, 25, 25, 25, 50};
  const unsigned last = sizeof rates / sizeof rates[0] - 1;
  unsigned version;
  if (nvml->nvmlDeviceGetNvLinkVersion == NULL ||
      nvml->nvmlDeviceGetNvLinkVersion(gpu, link, &version) != NVML_OK) {
    return rates[0];
  }
  return rates[version < last ? version : last];
}

static topo_nvml_remote_t remote_of(const nvml_t *nvml, nvml_device_t gpu, unsigned link) {
  unsigned type;
  if (nvml->nvmlDeviceGetNvLinkRemoteDeviceType == NULL ||
      nvml->nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link, &type) != NVML_OK) {
    return TOPO_NVML_REMOTE_OTHER;
  }
  return type == NVML_REMOTE_IS_GPU      ? TOPO_NVML_REMOTE_GPU
         : type == NVML_REMOTE_IS_SWITCH ? TOPO_NVML_REMOTE_SWITCH
                                         : TOPO_NVML_REMOTE_OTHER;
}

static void read_links(const nvml_t *nvml, nvml_device_t device, topo_nvml_gpu_t *gpu) {
  if (nvml->nvmlDeviceGetNvLinkState == NULL || nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2 == NULL)
    return;
  for (unsigned link = 0; link < TOPO_NVML_LINKS_MAX; link++) {
    unsigned is_active = 0;
    nvml_pci_info_t info;
    if (nvml->nvmlDeviceGetNvLinkState(device, link, &is_active) != NVML_OK || !is_active) continue;
    memset(&info, 0, sizeof info);
    if (nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &info) != NVML_OK) continue;
    gpu->links[gpu->link_count++] =
        (topo_nvml_link_t){.remote = remote_of(nvml, device, link),
                           .address = address_of(&info),
                           .gigabytes_per_s = rate_of(nvml, device, link)};
  }
}

static bool reaches_peers(const nvml_t *nvml, nvml_device_t gpu, unsigned count) {
  nvml_device_t peer;
  unsigned status;
  bool is_refused = false;
  if (nvml->nvmlDeviceGetP2PStatus == NULL) return true;
  for (unsigned i = 0; i < count; i++) {
    if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &peer) != NVML_OK || peer == gpu) continue;
    if (nvml->nvmlDeviceGetP2PStatus(gpu, peer, NVML_P2P_BY_NVLINK, &status) != NVML_OK) continue;
    if (status == NVML_OK) return true;
    is_refused = true;
  }
  return !is_refused;
}

/* Links of older drivers, which do not report what is at the other end, lead to GPUs if one is
 * there. */
static void find_remote_gpus(topo_nvml_gpu_t gpus[], size_t count) {
  for (size_t g = 0; g < count; g++) {
    for (int32_t i = 0; i < gpus[g].link_count; i++) {
      topo_nvml_link_t *link = &gpus[g].links[i];
      for (size_t other = 0; other < count; other++) {
        if (gpus[other].address == link->address) link->remote = TOPO_NVML_REMOTE_GPU;
      }
    }
  }
}

static size_t read_gpus(const nvml_t *nvml, unsigned devices, topo_nvml_gpu_t gpus[]) {
  size_t count = 0;
  for (unsigned i = 0; i < devices; i++) {
    topo_nvml_gpu_t *gpu = &gpus[count];
    nvml_device_t device;
    nvml_pci_info_t info;
    memset(&info, 0, sizeof info);
    if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &device) != NVML_OK) continue;
    if (nvml->nvmlDeviceGetPciInfo_v3(device, &info) != NVML_OK) continue;
    gpu->address = address_of(&info);
    if (nvml->nvmlDeviceGetName(device, gpu->model, sizeof gpu->model) != NVML_OK) {
      gpu->model[0] = '\0';
    }
    gpu->model[sizeof gpu->model - 1] = '\0';
    gpu->reaches_peers = reaches_peers(nvml, device, devices);
    read_links(nvml, device, gpu);
    count++;
  }
  find_remote_gpus(gpus, count);
  return count;
}

coll_status_t topo_nvml_gpus(const char *library, topo_nvml_gpu_t **gpus, size_t *count) {
  nvml_t nvml;
  unsigned devices = 0;
  coll_status_t status = COLL_OK;
  *gpus = NULL;
  *count = 0;
  if (!start(&nvml, library)) return COLL_OK;
  if (nvml.nvmlDeviceGetCount_v2(&devices) == NVML_OK && devices > 0) {
    status = base_alloc(devices, sizeof **gpus, "GPUs", (void **)gpus);
    if (status == COLL_OK) *count = read_gpus(&nvml, devices, *gpus);
  }
  nvml.nvmlShutdown();
  dlclose(nvml.library);
  return status;
}
