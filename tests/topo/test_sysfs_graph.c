/* The graph of a host from sysfs alone, beside the one that hwloc makes of the same files. */
#include <criterion/criterion.h>
#include <hwloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topo/tree.h"
#include "topo/check.h"
#include "topo/hwloc_graph.h"
#include "topo/sysfs.h"
#include "topo/sysfs_graph.h"

#define PATH_BYTES 256

static topo_graph_t *read_sysfs(const char *root, int64_t **addresses) {
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_from_sysfs(root, &graph, addresses), COLL_OK, "%s", base_last_error());
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  return graph;
}

/* folder: "" for this machine, or one that has sys/ and proc/. */
static topo_graph_t *read_hwloc(const char *folder, int64_t **addresses) {
  hwloc_topology_t topology;
  topo_graph_t *graph;
  if (folder[0] != '\0') setenv("HWLOC_FSROOT", folder, 1);
  cr_assert_eq(hwloc_topology_init(&topology), 0);
  topo_hwloc_keep_io(topology);
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  cr_assert_eq(hwloc_topology_load(topology), 0);
  cr_assert_eq(topo_graph_from_hwloc(topology, &graph, addresses), COLL_OK);
  hwloc_topology_destroy(topology);
  return graph;
}

static void free_both(topo_graph_t *graph, int64_t *addresses) {
  topo_graph_free(graph);
  free(addresses);
}

/* Models of GPUs come from hwloc's list of PCI ids; sysfs has none. The model of a package is in
 * /proc/cpuinfo, which is not part of a tree. */
static void expect_same_node(const topo_node_t *a, const topo_node_t *b, bool with_models) {
  cr_expect_str_eq(a->name, b->name);
  cr_expect_eq(a->kind, b->kind, "%s", a->name);
  cr_expect_eq(a->parent, b->parent, "%s", a->name);
  bool has_model = a->kind != TOPO_GPU && (with_models || a->kind != TOPO_PACKAGE);
  if (has_model) cr_expect_str_eq(a->model, b->model, "%s", a->name);
}

static void expect_same_link(const topo_graph_t *graph, const topo_link_t *a,
                             const topo_link_t *b) {
  const char *from = graph->nodes[a->a].name, *to = graph->nodes[a->b].name;
  cr_expect(a->a == b->a && a->b == b->b, "%s and %s", from, to);
  cr_expect_eq(a->link_class, b->link_class, "%s and %s", from, to);
  cr_expect(fabs(a->gigabytes_per_s - b->gigabytes_per_s) < 1e-4 * a->gigabytes_per_s,
            "%s and %s: %g and %g", from, to, a->gigabytes_per_s, b->gigabytes_per_s);
  cr_expect_eq(a->latency_us, b->latency_us);
}

static void expect_same(const topo_graph_t *a, const int64_t *a_addresses, const topo_graph_t *b,
                        const int64_t *b_addresses, bool with_models) {
  cr_assert_eq(a->node_count, b->node_count, "%zu and %zu nodes", a->node_count, b->node_count);
  cr_assert_eq(a->link_count, b->link_count, "%zu and %zu links", a->link_count, b->link_count);
  for (size_t i = 0; i < a->node_count; i++) {
    expect_same_node(&a->nodes[i], &b->nodes[i], with_models);
    cr_expect_eq(a_addresses[i], b_addresses[i], "%s", a->nodes[i].name);
  }
  for (size_t i = 0; i < a->link_count; i++) expect_same_link(a, &a->links[i], &b->links[i]);
}

Test(sysfs_graph, is_the_one_of_hwloc_on_this_machine) {
  int64_t *own_addresses, *addresses;
  topo_graph_t *own = read_sysfs(TOPO_SYSFS, &own_addresses);
  topo_graph_t *other = read_hwloc("", &addresses);
  expect_same(own, own_addresses, other, addresses, true);
  free_both(own, own_addresses);
  free_both(other, addresses);
}

/* ---- a tree --------------------------------------------------------------------------------- */

static char folder[TREE_BYTES], sys[PATH_BYTES];

static void add(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(const char *text, const char *format, ...) {
  char path[PATH_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(path, sizeof path, format, list);
  va_end(list);
  tree_add(sys, path, text);
}

/* Hardware threads n and n + 8 are core n. Two packages of two NUMA nodes of two cores, in whose
 * order numbers do not ascend; an L3 for each NUMA node, in the first package one for each core. */
static void add_cpu(int cpu) {
  static const char *const package_lists[] = {"0,2,4,6,8,10,12,14\n", "1,3,5,7,9,11,13,15\n"};
  static const char *const caches[] = {"0,8\n",  "1,5,9,13\n", "2,10\n", "3,7,11,15\n",
                                       "4,12\n", "1,5,9,13\n", "6,14\n", "3,7,11,15\n"};
  int core = cpu % 8, package = core % 2;
  char text[32];
  snprintf(text, sizeof text, "%d,%d\n", core, core + 8);
  add(text, "devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  add(package_lists[package], "devices/system/cpu/cpu%d/topology/core_siblings_list", cpu);
  snprintf(text, sizeof text, "%04x\n", 0x101 << core);
  add(text, "devices/system/cpu/cpu%d/topology/thread_siblings", cpu);
  add(package == 0 ? "5555\n" : "aaaa\n", "devices/system/cpu/cpu%d/topology/core_siblings", cpu);
  snprintf(text, sizeof text, "%d\n", core / 2);
  add(text, "devices/system/cpu/cpu%d/topology/core_id", cpu);
  add(package == 0 ? "0\n" : "1\n", "devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
  add("3\n", "devices/system/cpu/cpu%d/cache/index3/level", cpu);
  add("Unified\n", "devices/system/cpu/cpu%d/cache/index3/type", cpu);
  add("16384K\n", "devices/system/cpu/cpu%d/cache/index3/size", cpu);
  add(caches[core], "devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu);
  static const int masks[] = {0x101, 0x2222, 0x404, 0x8888, 0x1010, 0x2222, 0x4040, 0x8888};
  snprintf(text, sizeof text, "%04x\n", masks[core]);
  add(text, "devices/system/cpu/cpu%d/cache/index3/shared_cpu_map", cpu);
}

static void add_processors(void) {
  static const char *const lists[] = {"0,4,8,12\n", "2,6,10,14\n", "1,5,9,13\n", "3,7,11,15\n"};
  static const char *const masks[] = {"1111\n", "4444\n", "2222\n", "8888\n"};
  for (int cpu = 0; cpu < 16; cpu++) add_cpu(cpu);
  add("0-15\n", "devices/system/cpu/online");
  add("0-15\n", "devices/system/cpu/possible");
  add("0-15\n", "devices/system/cpu/present");
  add("0-3\n", "devices/system/node/online");
  for (int node = 0; node < 4; node++) {
    add(lists[node], "devices/system/node/node%d/cpulist", node);
    add(masks[node], "devices/system/node/node%d/cpumap", node);
    add("Node 0 MemTotal: 1000000 kB\n", "devices/system/node/node%d/meminfo", node);
  }
}

/* A function, whose path is that of the bridges above it. */
static void add_function(const char *path, unsigned class_id, unsigned vendor, const char *near,
                         const char *speed) {
  char link[PATH_BYTES], target[PATH_BYTES], text[16];
  snprintf(target, sizeof target, "devices/%s", path);
  snprintf(link, sizeof link, "bus/pci/devices/%s", strrchr(path, '/') + 1);
  tree_link(sys, link, target);
  snprintf(text, sizeof text, "0x%04x00\n", class_id);
  add(text, "%s/class", target);
  snprintf(text, sizeof text, "0x%04x\n", vendor);
  add(text, "%s/vendor", target);
  add(near, "%s/local_cpulist", target);
  if (speed != NULL) add(speed, "%s/current_link_speed", target);
  if (speed != NULL) add("16\n", "%s/current_link_width", target);
}

#define SWITCH "pci0000:00/0000:00:01.0/0000:01:00.0"

/* Root complexes near the first package and near the last NUMA node. Below the first a switch with
 * a GPU and a NIC of two functions, a bridge with one GPU, and a display controller. */
static void add_pci(void) {
  static const char first[] = "0,2,4,6,8,10,12,14\n", last[] = "3,7,11,15\n";
  add_function("pci0000:00/0000:00:01.0", 0x0604, 0x8086, first, "32.0 GT/s PCIe\n");
  add_function(SWITCH, 0x0604, 0x10b5, first, "16.0 GT/s PCIe\n");
  add_function(SWITCH "/0000:02:00.0", 0x0604, 0x10b5, first, "16.0 GT/s PCIe\n");
  add_function(SWITCH "/0000:02:00.0/0000:03:00.0", 0x0302, 0x10de, first, "16.0 GT/s PCIe\n");
  add_function(SWITCH "/0000:02:01.0", 0x0604, 0x10b5, first, "16.0 GT/s PCIe\n");
  add_function(SWITCH "/0000:02:01.0/0000:04:00.0", 0x0207, 0x15b3, first, "8.0 GT/s PCIe\n");
  add_function(SWITCH "/0000:02:01.0/0000:04:00.1", 0x0200, 0x15b3, first, "8.0 GT/s PCIe\n");
  add_function("pci0000:00/0000:00:02.0", 0x0604, 0x8086, first, "5.0 GT/s PCIe\n");
  add_function("pci0000:00/0000:00:02.0/0000:05:00.0", 0x0302, 0x10de, first, "16.0 GT/s PCIe\n");
  add_function("pci0000:00/0000:00:1f.0", 0x0300, 0x1a03, first, NULL);
  add_function("pci0000:80/0000:80:00.0", 0x1200, 0x10de, last, NULL);
  tree_link(sys, "class/infiniband/mlx5_0/device", "devices/" SWITCH "/0000:02:01.0/0000:04:00.0");
  tree_link(sys, "class/net/eth7/device", "devices/" SWITCH "/0000:02:01.0/0000:04:00.1");
}

static void make_tree(void) {
  tree_make(folder);
  snprintf(sys, sizeof sys, "%s/sys", folder);
  tree_add(folder, "sys/mounted", "");
  add_processors();
}

static int32_t find(const topo_graph_t *graph, const char *name) {
  size_t i = 0;
  while (i < graph->node_count && strcmp(graph->nodes[i].name, name) != 0) i++;
  cr_assert_lt(i, graph->node_count, "there is no %s", name);
  return (int32_t)i;
}

static const topo_link_t *link_of(const topo_graph_t *graph, const char *a, const char *b) {
  int32_t from = find(graph, a), to = find(graph, b);
  size_t i = 0;
  while (i < graph->link_count && (graph->links[i].a != from || graph->links[i].b != to)) i++;
  cr_assert_lt(i, graph->link_count, "%s and %s have no link", a, b);
  return &graph->links[i];
}

Test(sysfs_graph, has_the_processors_of_a_tree_as_hwloc_has) {
  int64_t *own_addresses, *addresses;
  make_tree();
  topo_graph_t *own = read_sysfs(sys, &own_addresses);
  topo_graph_t *other = read_hwloc(folder, &addresses);
  cr_assert_eq(topo_graph_count(other, TOPO_CORE), 8);
  expect_same(own, own_addresses, other, addresses, false);
  free_both(own, own_addresses);
  free_both(other, addresses);
  tree_remove(folder);
}

static const topo_node_t *node_of(const topo_graph_t *graph, const char *name) {
  return &graph->nodes[find(graph, name)];
}

static void expect_parent(const topo_graph_t *graph, const char *name, const char *parent) {
  cr_expect_str_eq(graph->nodes[node_of(graph, name)->parent].name, parent, "%s", name);
}

Test(sysfs_graph, has_switches_and_devices_where_they_divide) {
  int64_t *addresses;
  make_tree();
  add_pci();
  topo_graph_t *graph = read_sysfs(sys, &addresses);
  cr_assert_eq(topo_graph_count(graph, TOPO_PCI_SWITCH), 3, "two root complexes and a switch");
  cr_assert_eq(topo_graph_count(graph, TOPO_GPU), 3);
  cr_assert_eq(topo_graph_count(graph, TOPO_NIC), 2);
  expect_parent(graph, "host0/pci0", "host0/cpu0");
  expect_parent(graph, "host0/pci1", "host0/pci0");
  expect_parent(graph, "host0/gpu0", "host0/pci1");
  expect_parent(graph, "host0/nic0", "host0/pci1");
  expect_parent(graph, "host0/nic1", "host0/pci1");
  expect_parent(graph, "host0/gpu1", "host0/pci0");
  expect_parent(graph, "host0/pci2", "host0/numa3");
  expect_parent(graph, "host0/gpu2", "host0/pci2");
  cr_expect_str_eq(node_of(graph, "host0/nic0")->model, "mlx5_0");
  cr_expect_str_eq(node_of(graph, "host0/nic1")->model, "eth7");
  cr_expect_eq(addresses[find(graph, "host0/gpu1")], topo_pci_address(0, 5, 0, 0));
  cr_expect_eq(addresses[find(graph, "host0/pci1")], topo_pci_address(0, 1, 0, 0));
  cr_expect_eq(addresses[find(graph, "host0/pci0")], TOPO_PCI_NONE);
  cr_expect_float_eq(link_of(graph, "host0/pci0", "host0/pci1")->gigabytes_per_s, 31.508, 1e-3);
  cr_expect_float_eq(link_of(graph, "host0/pci1", "host0/gpu0")->gigabytes_per_s, 31.508, 1e-3);
  cr_expect_float_eq(link_of(graph, "host0/pci1", "host0/nic1")->gigabytes_per_s, 15.754, 1e-3);
  cr_expect_float_eq(link_of(graph, "host0/pci0", "host0/gpu1")->gigabytes_per_s, 8, 1e-3);
  cr_expect_eq(link_of(graph, "host0/pci2", "host0/gpu2")->gigabytes_per_s, TOPO_TYPICAL_PCIE_GBS);
  free_both(graph, addresses);
  tree_remove(folder);
}

/* As in a container without /sys. */
Test(sysfs_graph, has_the_own_processors_where_sysfs_is_empty) {
  int64_t *addresses;
  const topo_cpus_t own = topo_cpus_own();
  tree_make(folder);
  topo_graph_t *graph = read_sysfs(folder, &addresses);
  cr_assert_eq(topo_graph_count(graph, TOPO_CORE), (size_t)topo_cpus_count(&own));
  cr_assert_eq(topo_graph_count(graph, TOPO_PACKAGE), 0);
  cr_assert_eq(topo_graph_count(graph, TOPO_NUMA), 1);
  free_both(graph, addresses);
  tree_remove(folder);
}
