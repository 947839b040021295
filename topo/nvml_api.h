/* The part of NVML's interface that nvml.c and the tests' stand-in use: types as in the NVML API
 * reference guide, so that neither needs NVIDIA's header. */
#ifndef TOPO_NVML_API_H
#define TOPO_NVML_API_H

#define NVML_OK 0
#define NVML_REMOTE_IS_GPU 0
#define NVML_REMOTE_IS_SWITCH 2
#define NVML_P2P_BY_NVLINK 2

typedef int nvml_return_t;
typedef void *nvml_device_t;

typedef struct nvml_pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32]; /* "00000000:3B:00.0" */
} nvml_pci_info_t;

/* One row per function: result, name, arguments. */
#define NVML_NEEDED(row)                                                                           \
  row(nvmlInit_v2, (void)) row(nvmlShutdown, (void)) row(nvmlDeviceGetCount_v2, (unsigned *count)) \
      row(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml_device_t *gpu))                     \
          row(nvmlDeviceGetPciInfo_v3, (nvml_device_t gpu, nvml_pci_info_t * info))                \
              row(nvmlDeviceGetName, (nvml_device_t gpu, char *name, unsigned bytes))

#define NVML_OPTIONAL(row)                                                                   \
  row(nvmlDeviceGetNvLinkState, (nvml_device_t gpu, unsigned link, unsigned *is_active))     \
      row(nvmlDeviceGetNvLinkVersion, (nvml_device_t gpu, unsigned link, unsigned *version)) \
          row(nvmlDeviceGetNvLinkRemotePciInfo_v2,                                           \
              (nvml_device_t gpu, unsigned link, nvml_pci_info_t *info))                     \
              row(nvmlDeviceGetNvLinkRemoteDeviceType,                                       \
                  (nvml_device_t gpu, unsigned link, unsigned *type))                        \
                  row(nvmlDeviceGetP2PStatus, (nvml_device_t gpu, nvml_device_t peer,        \
                                               unsigned capability, unsigned *status))

#endif
