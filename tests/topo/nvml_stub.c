/*
 * Stands in for libnvidia-ml.so.1. The variable NVML_STUB selects the machine:
 *   direct    two GPUs, joined by four links of NVLink 2
 *   switches  two GPUs with 18 links of NVLink 4 each to NVSwitches
 *   refused   the same, but the driver does not allow access between GPUs
 *   none      the driver does not run
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/nvml_api.h"

#define PUBLIC __attribute__((visibility("default")))
#define DECLARE(name, arguments) PUBLIC nvml_return_t name arguments;
NVML_NEEDED(DECLARE)
NVML_OPTIONAL(DECLARE)
#undef DECLARE

#define FAILED 999

static int gpus[2]; /* their addresses are the handles */
static const unsigned buses[2] = {0x03, 0x82};

static int is_machine(const char *name) {
  const char *machine = getenv("NVML_STUB");
  return machine != NULL && strcmp(machine, name) == 0;
}

static int index_of(nvml_device_t gpu) {
  return (int)((int *)gpu - gpus);
}

static nvml_return_t give_address(unsigned bus, nvml_pci_info_t *info) {
  memset(info, 0, sizeof *info);
  info->bus = bus;
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", bus);
  return NVML_OK;
}

nvml_return_t nvmlInit_v2(void) {
  return is_machine("none") ? FAILED : NVML_OK;
}

nvml_return_t nvmlShutdown(void) {
  return NVML_OK;
}

nvml_return_t nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 2;
  return NVML_OK;
}

nvml_return_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device_t *gpu) {
  if (index >= 2) return FAILED;
  *gpu = &gpus[index];
  return NVML_OK;
}

nvml_return_t nvmlDeviceGetPciInfo_v3(nvml_device_t gpu, nvml_pci_info_t *info) {
  return give_address(buses[index_of(gpu)], info);
}

nvml_return_t nvmlDeviceGetName(nvml_device_t gpu, char *name, unsigned bytes) {
  snprintf(name, bytes, "Stub GPU %d", index_of(gpu));
  return NVML_OK;
}

nvml_return_t nvmlDeviceGetNvLinkState(nvml_device_t gpu, unsigned link, unsigned *is_active) {
  (void)gpu;
  *is_active = link < (is_machine("direct") ? 4 : 18);
  return link < 18 ? NVML_OK : FAILED;
}

nvml_return_t nvmlDeviceGetNvLinkVersion(nvml_device_t gpu, unsigned link, unsigned *version) {
  (void)gpu, (void)link;
  *version = is_machine("direct") ? 2 : 6;
  return NVML_OK;
}

nvml_return_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device_t gpu, unsigned link,
                                                  nvml_pci_info_t *info) {
  return give_address(is_machine("direct") ? buses[1 - index_of(gpu)] : 0x40 + link % 4, info);
}

nvml_return_t nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device_t gpu, unsigned link,
                                                  unsigned *type) {
  (void)gpu, (void)link;
  if (is_machine("direct")) return FAILED; /* as older drivers */
  *type = NVML_REMOTE_IS_SWITCH;
  return NVML_OK;
}

nvml_return_t nvmlDeviceGetP2PStatus(nvml_device_t gpu, nvml_device_t peer, unsigned capability,
                                     unsigned *status) {
  (void)gpu, (void)peer;
  *status = is_machine("refused") && capability == NVML_P2P_BY_NVLINK;
  return NVML_OK;
}
