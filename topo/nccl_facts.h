/* What names and numbers of NCCL's topology files stand for: GPUs, processors, speeds of PCIe. */
#ifndef TOPO_NCCL_FACTS_H
#define TOPO_NCCL_FACTS_H

#include "topo/graph.h"

/* A generation of GPUs. */
typedef struct topo_nccl_gpu {
  const char *key;   /* part of the names of its models */
  const char *model; /* of the device of that PCI id */
  uint32_t vendor, device;
  int32_t sm;      /* NVIDIA: compute capability; AMD: compute units */
  const char *gcn; /* AMD's name of the architecture; NULL: NVIDIA */
  double link_gbs; /* GB/s per direction of one NVLink or xGMI link, peak */
} topo_nccl_gpu_t;

/* The entry of a model's name ("A100 SXM", "sm 80", "gfx942"), NULL if none is known. */
const topo_nccl_gpu_t *topo_nccl_gpu_of_model(const char *model);

/* The entry of a PCI id, NULL if none is known. */
const topo_nccl_gpu_t *topo_nccl_gpu_of_device(uint32_t vendor, uint32_t device);

/* The entry of the greatest compute capability up to sm, or the first of NVIDIA. */
const topo_nccl_gpu_t *topo_nccl_gpu_of_sm(int64_t sm);

/* The entry of an architecture, with or without "gfx", or of the nearest one. */
const topo_nccl_gpu_t *topo_nccl_gpu_of_gcn(const char *gcn);

/* The latest entry of a vendor whose links have that bandwidth; if there is none, any. */
const topo_nccl_gpu_t *topo_nccl_gpu_of_links(bool amd, double link_gbs);

typedef struct topo_nccl_cpu {
  char arch[16], vendor[16]; /* "x86_64", "AuthenticAMD"; vendor "": not x86_64 */
  int32_t family, model;
} topo_nccl_cpu_t;

/* The processor of a model's name ("EPYC 7742", or as topo_nccl_cpu_name writes it). False if it is
 * not known: *cpu is any. */
bool topo_nccl_cpu_of_model(const char *model, topo_nccl_cpu_t *cpu);

/* "AuthenticAMD family 143 model 49", or "arm64". */
void topo_nccl_cpu_name(const topo_nccl_cpu_t *cpu, char name[TOPO_NAME_BYTES]);

/* GB/s per direction that NCCL assumes between two sockets (ncclTopoGetInterCpuBw). */
double topo_nccl_cpu_gbs(const topo_nccl_cpu_t *cpu);

/* The speeds of PCIe: "2.5 GT/s PCIe" at index 0, up; NULL past the last. */
const char *topo_nccl_pcie_speed(int generation);

/* The generation of "16 GT/s" or "16.0 GT/s PCIe", whatever follows; -1: none. */
int topo_nccl_pcie_generation(const char *speed);

/* GB/s per direction, in three digits. */
double topo_nccl_pcie_gbs(int generation, int32_t width);

/* The generation and width with the nearest bandwidth, the widest of equal ones. */
void topo_nccl_pcie_nearest(double gbs, int *generation, int32_t *width);

#endif
