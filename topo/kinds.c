/* One table row per kind of machine, each figure with its source. The switches of a GPU fabric are
 * one node per host or rack. */
#include "topo/kinds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "topo/kinds_build.h"

#define PCIE_3_GBS 7.9  /* x8: 8 GT/s, 128b/130b (PCI Express Base Specification) */
#define PCIE_4_GBS 31.5 /* x16: 16 GT/s */
#define PCIE_5_GBS 63.0 /* x16: 32 GT/s */

/* Bandwidths are per direction. */
typedef struct machine {
  const char *name, *source, *cpu, *gpu, *nic;
  int32_t packages, cores; /* cores of a package */
  double memory_gbs;       /* of a package */
  int32_t socket_links;
  double socket_gbs;
  int32_t gpus, pci_switches;
  double pcie_gbs;
  double package_gbs; /* of a GPU's NVLink to its package, which replaces PCIe; 0: none */
  int32_t gpu_links;  /* to the NVSwitch; without one, to each other GPU */
  double gpu_gbs;
  int32_t switch_hosts; /* hosts that share one GPU switch; 0: GPUs are linked directly */
  int32_t nics;
  double nic_gbs;
  topo_class_t nic_class;
} machine_t;

static const machine_t machines[] = {
    {
        .name = "dgx-a100",
        .source = "NVIDIA DGX A100 user guide (DU-09821), A100 white paper; AMD EPYC 7742",
        .cpu = "EPYC 7742",
        .gpu = "A100 SXM",
        .nic = "ConnectX-6",
        .packages = 2,
        .cores = 64,
        .memory_gbs = 204.8, /* EPYC 7742 data sheet: 8 channels of DDR4-3200 */
        .socket_links = 3,   /* EPYC 7002: 3 xGMI-2 links (a fourth is optional) */
        .socket_gbs = 36.0,  /* 16 lanes of 18 GT/s */
        .gpus = 8,
        .pci_switches = 4, /* user guide, system topology: 2 GPUs and 2 NICs on each */
        .pcie_gbs = PCIE_4_GBS,
        .gpu_links = 12, /* A100 white paper: 12 NVLinks, 600 GB/s in both directions */
        .gpu_gbs = 25.0,
        .switch_hosts = 1,
        .nics = 8, /* user guide: 8 single-port HDR, 200 Gb/s */
        .nic_gbs = 25.0,
        .nic_class = TOPO_CLASS_INFINIBAND,
    },
    {
        .name = "dgx-h100",
        .source = "NVIDIA DGX H100 user guide, H100 white paper; Intel Xeon Platinum 8480C",
        .cpu = "Xeon 8480C",
        .gpu = "H100 SXM",
        .nic = "ConnectX-7",
        .packages = 2,
        .cores = 56,
        .memory_gbs = 307.2, /* Xeon 8480C: 8 channels of DDR5-4800 */
        .socket_links = 4,   /* Xeon 8480C: 4 UPI links */
        .socket_gbs = 48.0,  /* 24 lanes of 16 GT/s */
        .gpus = 8,
        .pci_switches = 8, /* a port of a ConnectX-7 module and its GPU */
        .pcie_gbs = PCIE_5_GBS,
        .gpu_links = 18, /* H100 white paper: 18 NVLinks, 900 GB/s in both directions */
        .gpu_gbs = 25.0,
        .switch_hosts = 1,
        .nics = 8, /* user guide: 8 NDR, 400 Gb/s */
        .nic_gbs = 50.0,
        .nic_class = TOPO_CLASS_INFINIBAND,
    },
    {
        .name = "gb200-nvl72",
        .source = "NVIDIA GB200 NVL72 data sheet; a tray is a host; Grace to Grace is assumed",
        .cpu = "Grace",
        .gpu = "B200",
        .nic = "ConnectX-7",
        .packages = 2, /* data sheet: 18 trays of 2 Grace and 4 Blackwell */
        .cores = 72,
        .memory_gbs = 512.0, /* data sheet: LPDDR5X, 18.4 TB/s in all */
        .socket_links = 1,
        .socket_gbs = 150.0, /* assumed */
        .gpus = 4,
        .pci_switches = 4,
        .pcie_gbs = PCIE_5_GBS,
        .package_gbs = 225.0, /* NVLink-C2C: 900 GB/s, both directions, of a Grace and two GPUs */
        .gpu_links = 18,      /* data sheet: NVLink 5, 1.8 TB/s in both directions */
        .gpu_gbs = 50.0,
        .switch_hosts = 18,
        .nics = 4, /* DGX GB200 user guide: 4 ConnectX-7 a tray, 400 Gb/s */
        .nic_gbs = 50.0,
        .nic_class = TOPO_CLASS_INFINIBAND,
    },
    {
        .name = "mi300x",
        .source = "AMD Instinct MI300X platform data sheet; EPYC 9654; NICs of Azure ND MI300X v5",
        .cpu = "EPYC 9654",
        .gpu = "MI300X",
        .nic = "ConnectX-7",
        .packages = 2,
        .cores = 96,
        .memory_gbs = 460.8, /* EPYC 9654 data sheet: 12 channels of DDR5-4800 */
        .socket_links = 3,   /* EPYC 9004: 3 xGMI-3 links (a fourth is optional) */
        .socket_gbs = 64.0,  /* 16 lanes of 32 GT/s */
        .gpus = 8,
        .pci_switches = 8, /* assumed: a NIC beside each GPU */
        .pcie_gbs = PCIE_5_GBS,
        .gpu_links = 1, /* data sheet: a link of 128 GB/s, both directions, to each other GPU */
        .gpu_gbs = 64.0,
        .switch_hosts = 0,
        .nics = 8, /* Azure ND MI300X v5: 8 NDR, 400 Gb/s */
        .nic_gbs = 50.0,
        .nic_class = TOPO_CLASS_INFINIBAND,
    },
    {
        .name = "laptop",
        .source = "assumed: 8 cores, 2 channels of DDR4-3200, Ethernet of 1 Gb/s",
        .cpu = "8-core",
        .gpu = "",
        .nic = "1G Ethernet",
        .packages = 1,
        .cores = 8,
        .memory_gbs = 51.2,
        .pci_switches = 1,
        .pcie_gbs = PCIE_3_GBS,
        .nics = 1,
        .nic_gbs = 0.125,
        .nic_class = TOPO_CLASS_ETHERNET,
    },
};

enum { MACHINES = sizeof machines / sizeof machines[0], GPUS_MAX = 8 };

const char *topo_kind_of_machine(int index, const char **source) {
  if (index < 0 || index >= MACHINES) return NULL;
  *source = machines[index].source;
  return machines[index].name;
}

int32_t topo_build_node(topo_builder_t *b, topo_kind_t kind, int32_t parent, const char *model,
                        const char *format, ...) {
  char name[TOPO_NAME_BYTES];
  int32_t node = 0;
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  if (b->status == COLL_OK) b->status = topo_graph_add_node(b->graph, kind, parent, name, &node);
  if (b->status == COLL_OK) {
    snprintf(b->graph->nodes[node].model, TOPO_NAME_BYTES, "%s", model);
  }
  return node;
}

void topo_build_link(topo_builder_t *b, int32_t from, int32_t to, topo_class_t link_class,
                     int32_t count, double gbs, double latency_us) {
  const topo_link_t link = {from, to, link_class, count, gbs, latency_us};
  if (b->status == COLL_OK) b->status = topo_graph_add_link(b->graph, &link);
}

/* ---- hosts ----------------------------------------------------------------------------------*/

static void add_packages(topo_builder_t *b, const machine_t *m, int32_t h, int32_t packages[2]) {
  for (int32_t p = 0; p < m->packages; p++) {
    packages[p] = topo_build_node(b, TOPO_PACKAGE, b->host[h], m->cpu, "host%d/cpu%d", h, p);
    for (int32_t c = 0; c < m->cores; c++) {
      int32_t core = topo_build_node(b, TOPO_CORE, packages[p], "", "host%d/cpu%d/core%d", h, p, c);
      topo_build_link(b, packages[p], core, TOPO_CLASS_MEMORY, 1, m->memory_gbs, TOPO_CORE_US);
    }
  }
  if (m->packages > 1) {
    topo_build_link(b, packages[0], packages[1], TOPO_CLASS_MEMORY, m->socket_links, m->socket_gbs,
                    TOPO_CORE_US);
  }
}

static int32_t add_gpu(topo_builder_t *b, const machine_t *m, int32_t h, int32_t i, int32_t package,
                       int32_t pci) {
  bool by_nvlink = m->package_gbs > 0;
  int32_t parent = by_nvlink ? package : pci;
  int32_t gpu = topo_build_node(b, TOPO_GPU, parent, m->gpu, "host%d/gpu%d", h, i);
  if (by_nvlink) {
    topo_build_link(b, package, gpu, TOPO_CLASS_NVLINK, 1, m->package_gbs, TOPO_GPU_US);
  } else {
    topo_build_link(b, pci, gpu, TOPO_CLASS_PCIE, 1, m->pcie_gbs, TOPO_PCIE_US);
  }
  return gpu;
}

/* GPUs and NICs, evenly under PCI switches, these evenly under packages. */
static void add_devices(topo_builder_t *b, const machine_t *m, int32_t h, const int32_t packages[2],
                        int32_t gpu[]) {
  int32_t switches = m->pci_switches;
  for (int32_t s = 0; s < switches; s++) {
    int32_t package = packages[s * m->packages / switches];
    int32_t pci = topo_build_node(b, TOPO_PCI_SWITCH, package, "", "host%d/pci%d", h, s);
    topo_build_link(b, package, pci, TOPO_CLASS_PCIE, 1, m->pcie_gbs, TOPO_PCIE_US);
    for (int32_t i = s * m->gpus / switches; i < (s + 1) * m->gpus / switches; i++) {
      gpu[i] = add_gpu(b, m, h, i, package, pci);
    }
    for (int32_t i = s * m->nics / switches; i < (s + 1) * m->nics / switches; i++) {
      int32_t nic = topo_build_node(b, TOPO_NIC, pci, m->nic, "host%d/nic%d", h, i);
      topo_build_link(b, pci, nic, TOPO_CLASS_PCIE, 1, m->pcie_gbs, TOPO_PCIE_US);
      b->nic[h * m->nics + i] = nic;
    }
  }
}

static void link_gpus(topo_builder_t *b, const machine_t *m, int32_t h, const int32_t gpu[],
                      int32_t *gpu_switch) {
  if (m->gpus > 0 && m->switch_hosts == 1) {
    *gpu_switch = topo_build_node(b, TOPO_NVSWITCH, b->host[h], "", "host%d/nvswitch", h);
  } else if (m->switch_hosts > 1 && h % m->switch_hosts == 0) {
    *gpu_switch =
        topo_build_node(b, TOPO_NVSWITCH, TOPO_NONE, "", "rack%d/nvswitch", h / m->switch_hosts);
  }
  for (int32_t i = 0; i < m->gpus; i++) {
    if (m->switch_hosts > 0) {
      topo_build_link(b, gpu[i], *gpu_switch, TOPO_CLASS_NVLINK, m->gpu_links, m->gpu_gbs,
                      TOPO_GPU_US / 2);
    }
    for (int32_t j = 0; m->switch_hosts == 0 && j < i; j++) {
      topo_build_link(b, gpu[j], gpu[i], TOPO_CLASS_NVLINK, m->gpu_links, m->gpu_gbs, TOPO_GPU_US);
    }
  }
}

static void add_hosts(topo_builder_t *b, const machine_t *m) {
  int32_t packages[2], gpu[GPUS_MAX], gpu_switch = TOPO_NONE;
  for (int32_t h = 0; h < b->hosts && b->status == COLL_OK; h++) {
    b->host[h] = topo_build_node(b, TOPO_HOST, TOPO_NONE, m->name, "host%d", h);
    add_packages(b, m, h, packages);
    add_devices(b, m, h, packages, gpu);
    link_gpus(b, m, h, gpu, &gpu_switch);
  }
}

static coll_status_t find_machine(const char *kind, const machine_t **machine) {
  const char *names[MACHINES];
  for (int i = 0; i < MACHINES; i++) {
    names[i] = machines[i].name;
    *machine = &machines[i];
    if (strcmp(kind, names[i]) == 0) return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "no kind of machine is called '%s'; did you mean '%s'?",
                   kind, base_text_nearest(kind, names, MACHINES));
}

coll_status_t topo_make(const char *kind, int32_t hosts, const char *fabric, topo_graph_t **graph) {
  const machine_t *m;
  *graph = NULL;
  COLL_TRY(find_machine(kind, &m));
  if (hosts < 1 || hosts > TOPO_HOSTS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%d hosts: give 1 to %d", hosts, TOPO_HOSTS_MAX);
  }
  topo_builder_t b = {.hosts = hosts,
                      .nics = m->nics,
                      .nic_gbs = m->nic_gbs,
                      .pcie_gbs = m->pcie_gbs,
                      .nic_class = m->nic_class};
  size_t nics = (size_t)hosts * (size_t)m->nics;
  b.status = topo_graph_create(kind, &b.graph);
  if (b.status == COLL_OK) b.status = base_alloc(nics, sizeof *b.nic, "hosts", (void **)&b.nic);
  if (b.status == COLL_OK) {
    b.status = base_alloc((size_t)hosts, sizeof *b.host, "hosts", (void **)&b.host);
  }
  if (b.status == COLL_OK) add_hosts(&b, m);
  if (b.status == COLL_OK && fabric != NULL && *fabric != '\0') {
    b.status = topo_build_fabric(&b, fabric);
  }
  free(b.nic);
  free(b.host);
  if (b.status == COLL_OK) {
    *graph = b.graph;
  } else {
    topo_graph_free(b.graph);
  }
  return b.status;
}
