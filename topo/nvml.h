/*
 * GPUs and their NVLinks as the NVIDIA Management Library reports them (NVML API reference guide).
 * The library is loaded at run time; a machine without it, or without GPUs, has none.
 */
#ifndef TOPO_NVML_H
#define TOPO_NVML_H

#include "topo/graph.h"
#include "topo/pci.h"

#define TOPO_NVML_LIBRARY "libnvidia-ml.so.1"
#define TOPO_NVML_LINKS_MAX 18 /* of a GPU */

typedef enum topo_nvml_remote {
  TOPO_NVML_REMOTE_GPU,
  TOPO_NVML_REMOTE_SWITCH,
  TOPO_NVML_REMOTE_OTHER
} topo_nvml_remote_t;

/* A link that is up. */
typedef struct topo_nvml_link {
  topo_nvml_remote_t remote;
  int64_t address;        /* PCI function of the other end */
  double gigabytes_per_s; /* per direction, by the version of NVLink */
} topo_nvml_link_t;

typedef struct topo_nvml_gpu {
  char model[TOPO_NAME_BYTES]; /* "NVIDIA H100 80GB HBM3" */
  int64_t address;
  bool reaches_peers; /* by NVLink: the driver allows it with one GPU or more; true if it does not
                         say. False while the fabric manager of NVSwitches does not run */
  int32_t link_count;
  topo_nvml_link_t links[TOPO_NVML_LINKS_MAX];
} topo_nvml_gpu_t;

/* Loads the library of that name or path and asks it. The caller frees *gpus. None and COLL_OK if
 * the library or a function that is needed is missing, or the driver does not run.
 * COLL_ERROR_MEMORY. */
coll_status_t topo_nvml_gpus(const char *library, topo_nvml_gpu_t **gpus, size_t *count);

#endif
