/* Finds the node of each device that sysfs and NVML report by its PCI function, and adds nodes for
 * devices that are not there yet, such as those of some virtual machines. */
#include "topo/discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/host_build.h"
#include "topo/nvml.h"
#include "topo/sysfs.h"

enum { HOST = 0 }; /* the first node */

/* A device by its PCI function. */
typedef struct known {
  int64_t address;
  int32_t node;
  bool is_connected; /* NICs: linked to a switch */
} known_t;

typedef struct devices {
  topo_builder_t b;
  known_t *known;
  size_t count, capacity;
  int32_t switches[2]; /* of Ethernet, of Infiniband; TOPO_NONE: not there yet */
  int32_t nvswitch;
} devices_t;

static known_t *know(devices_t *d, int64_t address, int32_t node) {
  if (d->b.status == COLL_OK) {
    d->b.status = base_grow((void **)&d->known, &d->capacity, d->count + 1, sizeof *d->known,
                            "devices of a host");
  }
  if (d->b.status != COLL_OK) return NULL;
  known_t *known = &d->known[d->count++];
  *known = (known_t){.address = address, .node = node};
  return known;
}

static known_t *find(devices_t *d, topo_kind_t kind, int64_t address) {
  for (size_t i = 0; i < d->count && address != TOPO_PCI_NONE; i++) {
    known_t *known = &d->known[i];
    if (known->address == address && d->b.graph->nodes[known->node].kind == kind) return known;
  }
  return NULL;
}

/* The NUMA node of that number, or the host. */
static int32_t numa_node(const topo_graph_t *graph, int32_t number) {
  char name[TOPO_NAME_BYTES];
  snprintf(name, sizeof name, "host0/numa%d", number);
  for (size_t i = 0; i < graph->node_count; i++) {
    if (strcmp(graph->nodes[i].name, name) == 0) return (int32_t)i;
  }
  return HOST;
}

/* Adds a device that is not there yet, linked to the NUMA node near it or to all packages. */
static known_t *add_device(devices_t *d, topo_kind_t kind, int64_t address, int32_t numa) {
  topo_graph_t *graph = d->b.graph;
  int32_t parent = numa_node(graph, numa);
  int32_t node = topo_build_node(&d->b, kind, parent, "", "host0/%s%zu", topo_kind_name(kind),
                                 topo_graph_count(graph, kind));
  topo_host_link_up(&d->b, HOST, node, (topo_host_place_t){parent, 0});
  return know(d, address, node);
}

/* ---- NICs ---------------------------------------------------------------------------------- */

static void connect_nic(devices_t *d, known_t *known, const topo_sysfs_nic_t *nic) {
  int32_t *end = &d->switches[nic->is_infiniband];
  if (nic->gigabytes_per_s <= 0 || known->is_connected) return;
  if (*end == TOPO_NONE) {
    *end = topo_build_node(&d->b, TOPO_SWITCH, TOPO_NONE, "", "switch-%s",
                           nic->is_infiniband ? "infiniband" : "ethernet");
  }
  topo_build_link(&d->b, known->node, *end,
                  nic->is_rdma ? TOPO_CLASS_INFINIBAND : TOPO_CLASS_ETHERNET, 1,
                  nic->gigabytes_per_s, TOPO_NIC_US);
  known->is_connected = true;
}

static void add_nics(devices_t *d, const char *root) {
  topo_sysfs_nic_t *nics;
  size_t count;
  if (d->b.status == COLL_OK) d->b.status = topo_sysfs_nics(root, &nics, &count);
  if (d->b.status != COLL_OK) return;
  for (size_t i = 0; i < count && d->b.status == COLL_OK; i++) {
    known_t *known = find(d, TOPO_NIC, nics[i].address);
    if (known == NULL) known = add_device(d, TOPO_NIC, nics[i].address, nics[i].numa);
    if (known == NULL) break;
    char *model = d->b.graph->nodes[known->node].model;
    if (nics[i].is_rdma || model[0] == '\0') snprintf(model, TOPO_NAME_BYTES, "%s", nics[i].name);
    connect_nic(d, known, &nics[i]);
  }
  free(nics);
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

/* Links of a GPU to another (peer >= 0) or to switches; of which *gbs is the rate. */
static int32_t count_links(const topo_nvml_gpu_t *gpu, const topo_nvml_gpu_t *peer, double *gbs) {
  int32_t count = 0;
  for (int32_t i = 0; i < gpu->link_count; i++) {
    const topo_nvml_link_t *link = &gpu->links[i];
    bool counts = peer != NULL
                      ? link->remote == TOPO_NVML_REMOTE_GPU && link->address == peer->address
                      : link->remote == TOPO_NVML_REMOTE_SWITCH;
    if (!counts) continue;
    *gbs = link->gigabytes_per_s;
    count++;
  }
  return count;
}

static void link_gpu(devices_t *d, const topo_nvml_gpu_t gpus[], const int32_t nodes[], size_t at) {
  double gbs;
  int32_t links = count_links(&gpus[at], NULL, &gbs);
  if (links > 0 && d->nvswitch == TOPO_NONE) {
    d->nvswitch = topo_build_node(&d->b, TOPO_NVSWITCH, HOST, "", "host0/nvswitch");
  }
  if (links > 0) {
    topo_build_link(&d->b, nodes[at], d->nvswitch, TOPO_CLASS_NVLINK, links, gbs, TOPO_GPU_US / 2);
  }
  for (size_t peer = 0; peer < at; peer++) {
    links = gpus[peer].reaches_peers ? count_links(&gpus[at], &gpus[peer], &gbs) : 0;
    if (links == 0) continue;
    topo_build_link(&d->b, nodes[peer], nodes[at], TOPO_CLASS_NVLINK, links, gbs, TOPO_GPU_US);
  }
}

static void add_gpus(devices_t *d, const char *library) {
  topo_nvml_gpu_t *gpus = NULL;
  int32_t *nodes = NULL;
  size_t count = 0;
  if (d->b.status == COLL_OK) d->b.status = topo_nvml_gpus(library, &gpus, &count);
  if (d->b.status == COLL_OK && count > 0) {
    d->b.status = base_alloc(count, sizeof *nodes, "GPUs", (void **)&nodes);
  }
  for (size_t i = 0; i < count && d->b.status == COLL_OK; i++) {
    known_t *known = find(d, TOPO_GPU, gpus[i].address);
    if (known == NULL) known = add_device(d, TOPO_GPU, gpus[i].address, -1);
    if (known == NULL) break;
    nodes[i] = known->node;
    snprintf(d->b.graph->nodes[known->node].model, TOPO_NAME_BYTES, "%s", gpus[i].model);
    if (gpus[i].reaches_peers) link_gpu(d, gpus, nodes, i);
  }
  free(nodes);
  free(gpus);
}

/* ---- the whole ----------------------------------------------------------------------------- */

coll_status_t topo_discover_devices(topo_graph_t *graph, const int64_t addresses[],
                                    const char *root, const char *nvml) {
  devices_t d = {.b = {.graph = graph, .status = COLL_OK},
                 .switches = {TOPO_NONE, TOPO_NONE},
                 .nvswitch = TOPO_NONE};
  for (size_t i = 0; i < graph->node_count; i++) {
    if (addresses[i] != TOPO_PCI_NONE) know(&d, addresses[i], (int32_t)i);
  }
  add_nics(&d, root);
  add_gpus(&d, nvml);
  free(d.known);
  return d.b.status;
}

coll_status_t topo_discover(topo_graph_t **graph) {
  int64_t *addresses;
  COLL_TRY(topo_discover_host(graph, &addresses));
  coll_status_t status = topo_discover_devices(*graph, addresses, TOPO_SYSFS, TOPO_NVML_LIBRARY);
  free(addresses);
  if (status != COLL_OK) {
    topo_graph_free(*graph);
    *graph = NULL;
  }
  return status;
}
