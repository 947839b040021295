/* One table row per kind of machine. The switches of a GPU fabric are one node per host or rack. */
#include "topo/kinds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define CORE_US 0.1
#define GPU_US 0.5
#define PCIE_US 0.3
#define NIC_US 0.6
#define SWITCH_US 0.3

typedef struct machine {
  const char *name, *source, *cpu, *gpu, *nic;
  int32_t packages, cores; /* cores of a package */
  double memory_gbs;       /* of a package */
  int32_t socket_links;
  double socket_gbs;
  int32_t gpus, gpus_per_pci_switch;
  double pcie_gbs;
  int32_t gpu_links; /* to the NVSwitch; without one, to each other GPU */
  double gpu_gbs;
  int32_t switch_hosts; /* hosts that share one GPU switch; 0: GPUs are linked directly */
  int32_t nics;
  double nic_gbs;
  topo_class_t nic_class;
} machine_t;

static const machine_t machines[] = {
    {"dgx-a100",
     "NVIDIA DGX A100 data sheet; A100 white paper: 12 NVLinks of 25 GB/s; PCIe 4.0 x16; HDR 200 "
     "Gb/s; AMD EPYC 7742: 8 DDR4-3200, 3 xGMI of 18 GT/s",
     "EPYC 7742", "A100 SXM", "ConnectX-6", 2, 64, 204.8, 3, 36.0, 8, 2, 31.5, 12, 25.0, 1, 8, 25.0,
     TOPO_CLASS_INFINIBAND},
    {"dgx-h100",
     "NVIDIA DGX H100 data sheet; H100 white paper: 18 NVLinks of 25 GB/s; PCIe 5.0 x16; NDR 400 "
     "Gb/s; Intel Xeon 8480C: 8 DDR5-4800, 4 UPI of 16 GT/s",
     "Xeon 8480C", "H100 SXM", "ConnectX-7", 2, 56, 307.2, 4, 48.0, 8, 1, 63.0, 18, 25.0, 1, 8,
     50.0, TOPO_CLASS_INFINIBAND},
    {"gb200-nvl72",
     "NVIDIA GB200 NVL72 data sheet: 18 trays of 2 Grace and 4 Blackwell; 18 NVLinks of 50 GB/s; "
     "LPDDR5X 512 GB/s; NDR 400 Gb/s; a tray is a host",
     "Grace", "B200", "ConnectX-7", 2, 72, 512.0, 1, 150.0, 4, 1, 63.0, 18, 50.0, 18, 4, 50.0,
     TOPO_CLASS_INFINIBAND},
    {"mi300x",
     "AMD Instinct MI300X platform data sheet: 7 Infinity Fabric links of 64 GB/s to the others; "
     "PCIe 5.0 x16; AMD EPYC 9654: 12 DDR5-4800; 400 Gb/s RoCE, assumed",
     "EPYC 9654", "MI300X", "400G RoCE", 2, 96, 460.8, 3, 64.0, 8, 1, 63.0, 1, 64.0, 0, 8, 50.0,
     TOPO_CLASS_INFINIBAND},
    {"laptop", "assumed: 8 cores, two channels of DDR4-3200, Ethernet of 1 Gb/s", "8-core", "",
     "1G Ethernet", 1, 8, 51.2, 0, 0.0, 0, 1, 7.9, 0, 0.0, 0, 1, 0.125, TOPO_CLASS_ETHERNET},
};

enum { MACHINES = sizeof machines / sizeof machines[0] };

const char *topo_kind_of_machine(int index, const char **source) {
  if (index < 0 || index >= MACHINES) return NULL;
  *source = machines[index].source;
  return machines[index].name;
}

/* The first failure is kept, so that construction needs no check after each step. */
typedef struct builder {
  topo_graph_t *graph;
  const machine_t *machine;
  coll_status_t status;
  int32_t hosts;
  int32_t *host, *nic; /* nodes: [hosts], [hosts * nics] */
} builder_t;

static int32_t add(builder_t *b, topo_kind_t kind, int32_t parent, const char *model,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

static int32_t add(builder_t *b, topo_kind_t kind, int32_t parent, const char *model,
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

static void join(builder_t *b, int32_t from, int32_t to, topo_class_t link_class, int32_t count,
                 double gbs, double latency_us) {
  const topo_link_t link = {from, to, link_class, count, gbs, latency_us};
  if (b->status == COLL_OK) b->status = topo_graph_add_link(b->graph, &link);
}

/* ---- hosts ----------------------------------------------------------------------------------*/

static void add_packages(builder_t *b, int32_t h, int32_t packages[2]) {
  const machine_t *m = b->machine;
  for (int32_t p = 0; p < m->packages; p++) {
    packages[p] = add(b, TOPO_PACKAGE, b->host[h], m->cpu, "host%d/cpu%d", h, p);
    for (int32_t c = 0; c < m->cores; c++) {
      int32_t core = add(b, TOPO_CORE, packages[p], "", "host%d/cpu%d/core%d", h, p, c);
      join(b, packages[p], core, TOPO_CLASS_MEMORY, 1, m->memory_gbs, CORE_US);
    }
  }
  if (m->packages > 1) {
    join(b, packages[0], packages[1], TOPO_CLASS_MEMORY, m->socket_links, m->socket_gbs, CORE_US);
  }
}

/* GPUs and NICs, evenly under PCI switches, these evenly under packages. */
static void add_devices(builder_t *b, int32_t h, const int32_t packages[2], int32_t gpu[]) {
  const machine_t *m = b->machine;
  int32_t switches = m->gpus > 0 ? m->gpus / m->gpus_per_pci_switch : 1;
  for (int32_t s = 0; s < switches; s++) {
    int32_t package = packages[s * m->packages / switches];
    int32_t pci = add(b, TOPO_PCI_SWITCH, package, "", "host%d/pci%d", h, s);
    join(b, package, pci, TOPO_CLASS_PCIE, 1, m->pcie_gbs, PCIE_US);
    for (int32_t i = s * m->gpus / switches; i < (s + 1) * m->gpus / switches; i++) {
      gpu[i] = add(b, TOPO_GPU, pci, m->gpu, "host%d/gpu%d", h, i);
      join(b, pci, gpu[i], TOPO_CLASS_PCIE, 1, m->pcie_gbs, PCIE_US);
    }
    for (int32_t i = s * m->nics / switches; i < (s + 1) * m->nics / switches; i++) {
      int32_t nic = add(b, TOPO_NIC, pci, m->nic, "host%d/nic%d", h, i);
      join(b, pci, nic, TOPO_CLASS_PCIE, 1, m->pcie_gbs, PCIE_US);
      b->nic[h * m->nics + i] = nic;
    }
  }
}

static void link_gpus(builder_t *b, int32_t h, const int32_t gpu[], int32_t *gpu_switch) {
  const machine_t *m = b->machine;
  if (m->gpus > 0 && m->switch_hosts == 1) {
    *gpu_switch = add(b, TOPO_NVSWITCH, b->host[h], "", "host%d/nvswitch", h);
  } else if (m->switch_hosts > 1 && h % m->switch_hosts == 0) {
    *gpu_switch = add(b, TOPO_NVSWITCH, TOPO_NONE, "", "rack%d/nvswitch", h / m->switch_hosts);
  }
  for (int32_t i = 0; i < m->gpus; i++) {
    if (m->switch_hosts > 0) {
      join(b, gpu[i], *gpu_switch, TOPO_CLASS_NVLINK, m->gpu_links, m->gpu_gbs, GPU_US / 2);
    }
    for (int32_t j = 0; m->switch_hosts == 0 && j < i; j++) {
      join(b, gpu[j], gpu[i], TOPO_CLASS_NVLINK, m->gpu_links, m->gpu_gbs, GPU_US);
    }
  }
}

static void add_hosts(builder_t *b) {
  int32_t packages[2], gpu[8], gpu_switch = TOPO_NONE;
  for (int32_t h = 0; h < b->hosts && b->status == COLL_OK; h++) {
    b->host[h] = add(b, TOPO_HOST, TOPO_NONE, b->machine->name, "host%d", h);
    add_packages(b, h, packages);
    add_devices(b, h, packages, gpu);
    link_gpus(b, h, gpu, &gpu_switch);
  }
}

/* ---- fabrics --------------------------------------------------------------------------------*/

/* Parses "4x4" with the given separator; returns how many numbers there are, 0 if malformed. */
static int32_t parse_numbers(const char *text, char separator, int32_t numbers[], int32_t max) {
  int32_t count = 0;
  for (;;) {
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || number < 1 || number > TOPO_HOSTS_MAX ||
        count == max) {
      return 0;
    }
    numbers[count++] = (int32_t)number;
    if (*end == '\0') return count;
    if (*end != separator) return 0;
    text = end + 1;
  }
}

static void add_rails(builder_t *b) {
  const machine_t *m = b->machine;
  for (int32_t i = 0; i < m->nics; i++) {
    int32_t rail = add(b, TOPO_SWITCH, TOPO_NONE, "", "rail%d", i);
    for (int32_t h = 0; h < b->hosts; h++) {
      join(b, b->nic[h * m->nics + i], rail, m->nic_class, 1, m->nic_gbs, NIC_US);
    }
  }
}

static void add_leaves(builder_t *b, int32_t leaves, int32_t spines) {
  const machine_t *m = b->machine;
  int32_t first = (int32_t)b->graph->node_count;
  for (int32_t l = 0; l < leaves; l++) add(b, TOPO_SWITCH, TOPO_NONE, "", "leaf%d", l);
  for (int32_t s = 0; s < spines; s++) add(b, TOPO_SWITCH, TOPO_NONE, "", "spine%d", s);
  int32_t down = (b->hosts + leaves - 1) / leaves * m->nics;
  for (int32_t i = 0; i < b->hosts * m->nics; i++) {
    int32_t leaf = first + (int32_t)((int64_t)(i / m->nics) * leaves / b->hosts);
    join(b, b->nic[i], leaf, m->nic_class, 1, m->nic_gbs, NIC_US);
  }
  for (int32_t i = 0; i < leaves * spines; i++) {
    join(b, first + i / spines, first + leaves + i % spines, m->nic_class,
         (down + spines - 1) / spines, m->nic_gbs, SWITCH_US);
  }
}

static void add_grid(builder_t *b, int32_t dims, const int32_t extents[], bool wraps) {
  const machine_t *m = b->machine;
  double gbs = m->nics * m->nic_gbs / (2 * dims);
  b->graph->grid = (topo_grid_t){.dims = dims, .wraps = wraps};
  memcpy(b->graph->grid.extents, extents, (size_t)dims * sizeof *extents);
  for (int32_t i = 0; i < b->hosts * m->nics; i++) {
    join(b, b->nic[i], b->host[i / m->nics], TOPO_CLASS_PCIE, 1, m->pcie_gbs, PCIE_US);
  }
  int32_t stride = b->hosts;
  for (int32_t d = 0; d < dims; d++) {
    int32_t extent = extents[d];
    stride /= extent;
    for (int32_t h = 0; h < b->hosts; h++) {
      bool last = h / stride % extent == extent - 1;
      if (extent == 1 || (last && !wraps)) continue;
      int32_t next = last ? h - (extent - 1) * stride : h + stride;
      join(b, b->host[h], b->host[next], TOPO_CLASS_TORUS, 1, gbs, NIC_US);
    }
  }
}

static coll_status_t add_fabric(builder_t *b, const char *fabric) {
  int32_t numbers[3] = {0}, count;
  if (fabric == NULL || *fabric == '\0') return b->status;
  bool torus = strncmp(fabric, "torus:", 6) == 0;
  if (strcmp(fabric, "rail") == 0) {
    add_rails(b);
  } else if (torus || strncmp(fabric, "mesh:", 5) == 0) {
    count = parse_numbers(strchr(fabric, ':') + 1, 'x', numbers, 3);
    int64_t cells = count > 0;
    for (int32_t i = 0; i < count; i++) cells *= numbers[i];
    if (cells != b->hosts) {
      return base_fail(COLL_ERROR_INVALID,
                       "fabric %s: its extents do not multiply to %d hosts; write torus:4x4 for 16",
                       fabric, b->hosts);
    }
    add_grid(b, count, numbers, torus);
  } else if (strncmp(fabric, "spine-leaf:", 11) == 0 &&
             parse_numbers(fabric + 11, ',', numbers, 2) == 2 && numbers[0] <= b->hosts) {
    add_leaves(b, numbers[0], numbers[1]);
  } else {
    return base_fail(COLL_ERROR_INVALID,
                     "no fabric '%s'; give rail, spine-leaf:L,S (at most one leaf per host), "
                     "torus:AxB[xC] or mesh:AxB[xC]",
                     fabric);
  }
  return b->status;
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
  builder_t b = {.hosts = hosts};
  *graph = NULL;
  COLL_TRY(find_machine(kind, &b.machine));
  if (hosts < 1 || hosts > TOPO_HOSTS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%d hosts: give 1 to %d", hosts, TOPO_HOSTS_MAX);
  }
  size_t nics = (size_t)hosts * (size_t)b.machine->nics;
  b.status = topo_graph_create(kind, &b.graph);
  if (b.status == COLL_OK) b.status = base_alloc(nics, sizeof *b.nic, "hosts", (void **)&b.nic);
  if (b.status == COLL_OK) {
    b.status = base_alloc((size_t)hosts, sizeof *b.host, "hosts", (void **)&b.host);
  }
  if (b.status == COLL_OK) add_hosts(&b);
  if (b.status == COLL_OK) b.status = add_fabric(&b, fabric);
  free(b.nic);
  free(b.host);
  if (b.status == COLL_OK) {
    *graph = b.graph;
  } else {
    topo_graph_free(b.graph);
  }
  return b.status;
}
