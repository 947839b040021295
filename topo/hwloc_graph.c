/* Walks the topology once for packages, NUMA nodes and cores, and once for I/O objects, which hwloc
 * attaches to the processors near them. */
#include "topo/hwloc_graph.h"

#include <hwloc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/host_build.h"

/* A package or NUMA node. */
typedef struct part {
  hwloc_const_bitmap_t cpus;
  int32_t node, cores;
} part_t;

typedef struct walk {
  hwloc_topology_t topology;
  topo_builder_t b;
  int32_t host;
  part_t *parts;
  size_t part_count, part_capacity;
  topo_host_addresses_t addresses;
  int32_t pcis, gpus, nics;
} walk_t;

typedef topo_host_place_t place_t;

/* ---- packages, NUMA nodes, cores ----------------------------------------------------------- */

/* The smallest part with all of the cpus, of equal ones the innermost; NULL: none. */
static part_t *part_of(walk_t *w, hwloc_const_bitmap_t cpus) {
  part_t *best = NULL;
  int least = INT_MAX;
  for (size_t i = 0; i < w->part_count; i++) {
    part_t *part = &w->parts[i];
    int weight = hwloc_bitmap_weight(part->cpus);
    if (weight > least || !hwloc_bitmap_isincluded(cpus, part->cpus)) continue;
    least = weight;
    best = part;
  }
  return best;
}

static void add_part(walk_t *w, hwloc_const_bitmap_t cpus, int32_t node) {
  if (w->b.status == COLL_OK) {
    w->b.status = base_grow((void **)&w->parts, &w->part_capacity, w->part_count + 1,
                            sizeof *w->parts, "parts of a host");
  }
  if (w->b.status != COLL_OK) return;
  w->parts[w->part_count++] = (part_t){.cpus = cpus, .node = node};
}

static void add_packages(walk_t *w) {
  hwloc_obj_t package = NULL;
  for (int32_t i = 0;
       (package = hwloc_get_next_obj_by_type(w->topology, HWLOC_OBJ_PACKAGE, package)) != NULL;
       i++) {
    int32_t node = topo_build_node(&w->b, TOPO_PACKAGE, w->host, "", "host0/cpu%d", i);
    topo_host_set_model(&w->b, node, hwloc_obj_get_info_by_name(package, "CPUModel"));
    add_part(w, package->cpuset, node);
  }
}

/* Memory of one kind beside another of the same cores, and memory without cores, are no places for
 * ranks. */
static bool is_home_of_cores(walk_t *w, hwloc_obj_t numa, size_t packages) {
  if (hwloc_bitmap_iszero(numa->cpuset)) return false;
  for (size_t i = packages; i < w->part_count; i++) {
    if (hwloc_bitmap_isequal(w->parts[i].cpus, numa->cpuset)) return false;
  }
  return true;
}

static void add_numa_nodes(walk_t *w) {
  size_t packages = w->part_count;
  hwloc_obj_t numa = NULL;
  while ((numa = hwloc_get_next_obj_by_type(w->topology, HWLOC_OBJ_NUMANODE, numa)) != NULL) {
    if (!is_home_of_cores(w, numa, packages)) continue;
    part_t *around = part_of(w, numa->cpuset);
    int32_t node = topo_host_add_numa(&w->b, w->host, around != NULL ? around->node : w->host,
                                      (int)numa->logical_index);
    add_part(w, numa->cpuset, node);
  }
}

static hwloc_obj_t cache_of(walk_t *w, hwloc_obj_t core) {
  return hwloc_get_ancestor_obj_by_type(w->topology, HWLOC_OBJ_L3CACHE, core);
}

/* A core and the earlier cores with which it shares an L3: neighbours in hwloc's order. */
static void link_core(walk_t *w, hwloc_obj_t core, part_t *part, int32_t node) {
  hwloc_obj_t cache = cache_of(w, core), other = core->prev_cousin;
  bool serves_part =
      cache != NULL && part != NULL && hwloc_bitmap_isincluded(part->cpus, cache->cpuset);
  int32_t before = 0;
  for (; cache != NULL && other != NULL && cache_of(w, other) == cache; before++) {
    other = other->prev_cousin;
  }
  topo_host_link_core(&w->b, part != NULL ? part->node : w->host, node, serves_part, before);
}

static void add_cores(walk_t *w) {
  /* some virtual machines show hardware threads but no cores */
  bool has_cores = hwloc_get_nbobjs_by_type(w->topology, HWLOC_OBJ_CORE) > 0;
  hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  hwloc_obj_t core = NULL;
  int32_t loose = 0;
  while ((core = hwloc_get_next_obj_by_type(w->topology, type, core)) != NULL &&
         w->b.status == COLL_OK) {
    part_t *part = part_of(w, core->cpuset);
    int32_t above = part != NULL ? part->node : w->host;
    int32_t number = part != NULL ? part->cores++ : loose++;
    int32_t node = topo_build_node(&w->b, TOPO_CORE, above, "", "%.40s/core%d",
                                   w->b.graph->nodes[above].name, number);
    link_core(w, core, part, node);
  }
}

/* ---- PCI ----------------------------------------------------------------------------------- */

typedef enum device { NO_DEVICE, A_GPU, A_NIC } device_t;

/* The first device of the operating system of one of two types that a PCI function has. */
static hwloc_obj_t os_device(hwloc_obj_t function, hwloc_obj_osdev_type_t type,
                             hwloc_obj_osdev_type_t other) {
  for (hwloc_obj_t child = function->io_first_child; child != NULL; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE) continue;
    if (child->attr->osdev.type == type || child->attr->osdev.type == other) return child;
  }
  return NULL;
}

static hwloc_obj_t network_device(hwloc_obj_t function) {
  hwloc_obj_t found = os_device(function, HWLOC_OBJ_OSDEV_OPENFABRICS, HWLOC_OBJ_OSDEV_OPENFABRICS);
  return found != NULL ? found
                       : os_device(function, HWLOC_OBJ_OSDEV_NETWORK, HWLOC_OBJ_OSDEV_NETWORK);
}

static device_t device_of(hwloc_obj_t function) {
  const struct hwloc_pcidev_attr_s *pci = &function->attr->pcidev;
  if (network_device(function) != NULL) return A_NIC;
  bool is_gpu = topo_pci_is_gpu(pci->class_id, pci->vendor_id) ||
                os_device(function, HWLOC_OBJ_OSDEV_COPROC, HWLOC_OBJ_OSDEV_COPROC) != NULL;
  if (!is_gpu && !topo_pci_is_display_only(pci->vendor_id)) {
    is_gpu = os_device(function, HWLOC_OBJ_OSDEV_GPU, HWLOC_OBJ_OSDEV_GPU) != NULL;
  }
  return is_gpu ? A_GPU : NO_DEVICE;
}

static bool is_useful(hwloc_obj_t object) {
  if (object->type == HWLOC_OBJ_PCI_DEVICE) return device_of(object) != NO_DEVICE;
  if (object->type != HWLOC_OBJ_BRIDGE) return false;
  for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling) {
    if (is_useful(child)) return true;
  }
  return false;
}

static bool are_one_device(hwloc_obj_t a, hwloc_obj_t b) {
  if (a->type != HWLOC_OBJ_PCI_DEVICE || b->type != HWLOC_OBJ_PCI_DEVICE) return false;
  const struct hwloc_pcidev_attr_s *left = &a->attr->pcidev, *right = &b->attr->pcidev;
  return left->domain == right->domain && left->bus == right->bus && left->dev == right->dev;
}

/* Whether two devices or more are reached through different children of a bridge. */
static bool divides(hwloc_obj_t bridge) {
  hwloc_obj_t first = NULL;
  for (hwloc_obj_t child = bridge->io_first_child; child != NULL; child = child->next_sibling) {
    if (!is_useful(child)) continue;
    if (first != NULL && !are_one_device(first, child)) return true;
    if (first == NULL) first = child;
  }
  return false;
}

static int64_t address_of(const struct hwloc_pcidev_attr_s *pci) {
  return topo_pci_address(pci->domain, pci->bus, pci->dev, pci->func);
}

static void add_device(walk_t *w, hwloc_obj_t function, place_t at) {
  device_t device = device_of(function);
  const struct hwloc_pcidev_attr_s *pci = &function->attr->pcidev;
  hwloc_obj_t system = network_device(function);
  int32_t node;
  if (device == NO_DEVICE) return;
  if (device == A_GPU) {
    node = topo_build_node(&w->b, TOPO_GPU, at.node, "", "host0/gpu%d", w->gpus++);
    topo_host_set_model(&w->b, node, hwloc_obj_get_info_by_name(function, "PCIDevice"));
  } else {
    node = topo_build_node(&w->b, TOPO_NIC, at.node, "", "host0/nic%d", w->nics++);
    topo_host_set_model(&w->b, node, system->name);
  }
  topo_host_set_address(&w->b, &w->addresses, node, address_of(pci));
  topo_host_link_up(&w->b, w->host, node, topo_host_narrowed(at, (double)pci->linkspeed));
}

static void walk_io(walk_t *w, hwloc_obj_t object, place_t at) {
  if (w->b.status != COLL_OK || !is_useful(object)) return;
  if (object->type == HWLOC_OBJ_PCI_DEVICE) {
    add_device(w, object, at);
    return;
  }
  bool is_root = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
  if (!is_root) at = topo_host_narrowed(at, (double)object->attr->bridge.upstream.pci.linkspeed);
  if (is_root || divides(object)) {
    int32_t node = topo_build_node(&w->b, TOPO_PCI_SWITCH, at.node, "", "host0/pci%d", w->pcis++);
    topo_host_set_address(&w->b, &w->addresses, node,
                          is_root ? TOPO_PCI_NONE : address_of(&object->attr->bridge.upstream.pci));
    topo_host_link_up(&w->b, w->host, node,
                      is_root ? (place_t){at.node, TOPO_TYPICAL_MEMORY_GBS} : at);
    at = (place_t){node, 0};
  }
  for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling) {
    walk_io(w, child, at);
  }
}

static void add_io(walk_t *w, hwloc_obj_type_t type) {
  hwloc_obj_t object = NULL;
  while ((object = hwloc_get_next_obj_by_type(w->topology, type, object)) != NULL) {
    hwloc_obj_t above = object->parent;
    if (above == NULL || above->type == HWLOC_OBJ_BRIDGE || above->cpuset == NULL) continue;
    part_t *part = part_of(w, above->cpuset);
    walk_io(w, object, (place_t){part != NULL ? part->node : w->host, 0});
  }
}

/* ---- the whole ----------------------------------------------------------------------------- */

coll_status_t topo_graph_from_hwloc(hwloc_topology_t topology, topo_graph_t **graph,
                                    int64_t **addresses) {
  walk_t w = {.topology = topology};
  hwloc_obj_t root = hwloc_get_root_obj(topology);
  w.b.status = topo_graph_create("", &w.b.graph);
  w.host = topo_build_node(&w.b, TOPO_HOST, TOPO_NONE, "", "host0");
  topo_host_set_model(&w.b, w.host, hwloc_obj_get_info_by_name(root, "DMIProductName"));
  add_packages(&w);
  add_numa_nodes(&w);
  topo_host_link_tops(&w.b, w.host);
  add_cores(&w);
  add_io(&w, HWLOC_OBJ_BRIDGE);
  add_io(&w, HWLOC_OBJ_PCI_DEVICE);
  if (w.b.status == COLL_OK) {
    topo_host_set_address(&w.b, &w.addresses, (int32_t)w.b.graph->node_count - 1, TOPO_PCI_NONE);
  }
  free(w.parts);
  if (w.b.status != COLL_OK || addresses == NULL) {
    free(w.addresses.of);
    w.addresses.of = NULL;
  }
  if (w.b.status != COLL_OK) {
    topo_graph_free(w.b.graph);
    w.b.graph = NULL;
  }
  *graph = w.b.graph;
  if (addresses != NULL) *addresses = w.addresses.of;
  return w.b.status;
}

void topo_hwloc_keep_io(hwloc_topology_t topology) {
  /* without this, hwloc prints warnings between a program's own output */
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}
