/* Walks the topology once for packages, NUMA nodes and cores, and once for I/O objects, which hwloc
 * attaches to the processors near them. */
#include "topo/hwloc_graph.h"

#include <hwloc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/kinds_build.h"

/* A package or NUMA node. */
typedef struct part {
  hwloc_const_bitmap_t cpus;
  int32_t node, cores;
  bool is_top; /* directly in the host */
} part_t;

typedef struct walk {
  hwloc_topology_t topology;
  topo_builder_t b;
  int32_t host;
  part_t *parts;
  size_t part_count, part_capacity;
  int64_t *addresses;
  size_t address_count, address_capacity;
  int32_t pcis, gpus, nics;
} walk_t;

/* Copies text for a model. Bytes that JSON or a terminal may not take become '?'. */
static const char *clean(const char *text, char model[TOPO_NAME_BYTES]) {
  snprintf(model, TOPO_NAME_BYTES, "%s", text != NULL ? text : "");
  for (char *at = model; *at != '\0'; at++) {
    if (*at < ' ' || *at > '~') *at = '?';
  }
  return model;
}

static void set_model(walk_t *w, int32_t node, const char *model) {
  if (w->b.status == COLL_OK) clean(model, w->b.graph->nodes[node].model);
}

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

static void add_part(walk_t *w, hwloc_const_bitmap_t cpus, int32_t node, bool is_top) {
  if (w->b.status == COLL_OK) {
    w->b.status = base_grow((void **)&w->parts, &w->part_capacity, w->part_count + 1,
                            sizeof *w->parts, "parts of a host");
  }
  if (w->b.status != COLL_OK) return;
  w->parts[w->part_count++] = (part_t){.cpus = cpus, .node = node, .is_top = is_top};
}

static void add_packages(walk_t *w) {
  hwloc_obj_t package = NULL;
  for (int32_t i = 0;
       (package = hwloc_get_next_obj_by_type(w->topology, HWLOC_OBJ_PACKAGE, package)) != NULL;
       i++) {
    int32_t node = topo_build_node(&w->b, TOPO_PACKAGE, w->host, "", "host0/cpu%d", i);
    set_model(w, node, hwloc_obj_get_info_by_name(package, "CPUModel"));
    add_part(w, package->cpuset, node, true);
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
    int32_t above = around != NULL ? around->node : w->host;
    while (w->b.status == COLL_OK && w->b.graph->nodes[above].kind == TOPO_NUMA) {
      above = w->b.graph->nodes[above].parent; /* NUMA nodes do not contain each other */
    }
    int32_t node =
        topo_build_node(&w->b, TOPO_NUMA, above, "", "host0/numa%d", (int)numa->logical_index);
    if (above != w->host) {
      topo_build_link(&w->b, above, node, TOPO_CLASS_MEMORY, 1, TOPO_TYPICAL_MEMORY_GBS,
                      TOPO_CORE_US);
    }
    add_part(w, numa->cpuset, node, above == w->host);
  }
}

static void link_parts(walk_t *w) {
  for (size_t i = 0; i < w->part_count; i++) {
    for (size_t j = 0; j < i; j++) {
      if (!w->parts[i].is_top || !w->parts[j].is_top) continue;
      topo_build_link(&w->b, w->parts[j].node, w->parts[i].node, TOPO_CLASS_MEMORY, 1,
                      TOPO_TYPICAL_PACKAGES_GBS, TOPO_CORE_US);
    }
  }
}

static hwloc_obj_t cache_of(walk_t *w, hwloc_obj_t core) {
  return hwloc_get_ancestor_obj_by_type(w->topology, HWLOC_OBJ_L3CACHE, core);
}

/* A core and the earlier cores with which it shares an L3 that does not serve the whole part. */
static void link_core(walk_t *w, hwloc_obj_t core, part_t *part, int32_t node) {
  hwloc_obj_t cache = cache_of(w, core), other = core->prev_cousin;
  bool serves_part =
      cache != NULL && part != NULL && hwloc_bitmap_isincluded(part->cpus, cache->cpuset);
  topo_build_link(&w->b, part != NULL ? part->node : w->host, node,
                  serves_part ? TOPO_CLASS_CACHE : TOPO_CLASS_MEMORY, 1,
                  serves_part ? TOPO_TYPICAL_CACHE_GBS : TOPO_TYPICAL_MEMORY_GBS,
                  serves_part ? TOPO_TYPICAL_CACHE_US : TOPO_CORE_US);
  if (serves_part || cache == NULL) return;
  /* cores of one cache are neighbours in hwloc's order, and their nodes have consecutive numbers */
  for (int32_t before = node - 1; other != NULL && cache_of(w, other) == cache; before--) {
    topo_build_link(&w->b, before, node, TOPO_CLASS_CACHE, 1, TOPO_TYPICAL_CACHE_GBS,
                    TOPO_TYPICAL_CACHE_US);
    other = other->prev_cousin;
  }
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

static void set_address(walk_t *w, int32_t node, const struct hwloc_pcidev_attr_s *pci) {
  size_t count = (size_t)node + 1;
  if (w->b.status == COLL_OK) {
    w->b.status = base_grow((void **)&w->addresses, &w->address_capacity, count,
                            sizeof *w->addresses, "PCI addresses");
  }
  if (w->b.status != COLL_OK) return;
  while (w->address_count < count) w->addresses[w->address_count++] = TOPO_PCI_NONE;
  if (pci != NULL) {
    w->addresses[node] = topo_pci_address(pci->domain, pci->bus, pci->dev, pci->func);
  }
}

/* Where I/O objects are: below a node; below the host, if more than one package is near. */
typedef struct place {
  int32_t node;
  double gbs; /* of the slowest link below the node; 0: none is reported */
} place_t;

static place_t narrowed(place_t at, double gbs) {
  if (gbs > 0 && (at.gbs <= 0 || gbs < at.gbs)) at.gbs = gbs;
  return at;
}

/* Adds the links of a node to what is above it: one node, or all packages. */
static void link_up(walk_t *w, int32_t node, place_t at) {
  double gbs = at.gbs > 0 ? at.gbs : TOPO_TYPICAL_PCIE_GBS;
  if (at.node != w->host) {
    topo_build_link(&w->b, at.node, node, TOPO_CLASS_PCIE, 1, gbs, TOPO_PCIE_US);
    return;
  }
  for (size_t i = 0; i < w->part_count; i++) {
    if (!w->parts[i].is_top) continue;
    topo_build_link(&w->b, w->parts[i].node, node, TOPO_CLASS_PCIE, 1, gbs, TOPO_PCIE_US);
  }
}

static void add_device(walk_t *w, hwloc_obj_t function, place_t at) {
  device_t device = device_of(function);
  const struct hwloc_pcidev_attr_s *pci = &function->attr->pcidev;
  hwloc_obj_t system = network_device(function);
  int32_t node;
  if (device == NO_DEVICE) return;
  if (device == A_GPU) {
    node = topo_build_node(&w->b, TOPO_GPU, at.node, "", "host0/gpu%d", w->gpus++);
    set_model(w, node, hwloc_obj_get_info_by_name(function, "PCIDevice"));
  } else {
    node = topo_build_node(&w->b, TOPO_NIC, at.node, "", "host0/nic%d", w->nics++);
    set_model(w, node, system->name);
  }
  set_address(w, node, pci);
  link_up(w, node, narrowed(at, (double)pci->linkspeed));
}

static void walk_io(walk_t *w, hwloc_obj_t object, place_t at) {
  if (w->b.status != COLL_OK || !is_useful(object)) return;
  if (object->type == HWLOC_OBJ_PCI_DEVICE) {
    add_device(w, object, at);
    return;
  }
  bool is_root = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
  if (!is_root) at = narrowed(at, (double)object->attr->bridge.upstream.pci.linkspeed);
  if (is_root || divides(object)) {
    int32_t node = topo_build_node(&w->b, TOPO_PCI_SWITCH, at.node, "", "host0/pci%d", w->pcis++);
    set_address(w, node, is_root ? NULL : &object->attr->bridge.upstream.pci);
    link_up(w, node, is_root ? (place_t){at.node, TOPO_TYPICAL_MEMORY_GBS} : at);
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
  set_model(&w, w.host, hwloc_obj_get_info_by_name(root, "DMIProductName"));
  add_packages(&w);
  add_numa_nodes(&w);
  link_parts(&w);
  add_cores(&w);
  add_io(&w, HWLOC_OBJ_BRIDGE);
  add_io(&w, HWLOC_OBJ_PCI_DEVICE);
  if (w.b.status == COLL_OK) set_address(&w, (int32_t)w.b.graph->node_count - 1, NULL);
  free(w.parts);
  if (w.b.status != COLL_OK || addresses == NULL) {
    free(w.addresses);
    w.addresses = NULL;
  }
  if (w.b.status != COLL_OK) {
    topo_graph_free(w.b.graph);
    w.b.graph = NULL;
  }
  *graph = w.b.graph;
  if (addresses != NULL) *addresses = w.addresses;
  return w.b.status;
}

void topo_hwloc_keep_io(hwloc_topology_t topology) {
  /* without this, hwloc prints warnings between a program's own output */
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}
