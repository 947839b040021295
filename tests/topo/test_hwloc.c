/* Graphs from hwloc: synthetic processors, a machine with PCI devices as XML, and damaged XML. */
#include <criterion/criterion.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/check.h"
#include "topo/hwloc_graph.h"
#include "topo/kinds_build.h"
#include "topo/paths.h"
#include "topo/place.h"

typedef struct sample {
  const char *text, *message; /* message: a part of the expected one */
} sample_t;

static topo_graph_t *synthetic(const char *description) {
  hwloc_topology_t topology;
  topo_graph_t *graph;
  cr_assert_eq(hwloc_topology_init(&topology), 0);
  topo_hwloc_keep_io(topology);
  cr_assert_eq(hwloc_topology_set_synthetic(topology, description), 0);
  cr_assert_eq(hwloc_topology_load(topology), 0);
  cr_assert_eq(topo_graph_from_hwloc(topology, &graph, NULL), COLL_OK, "%s", base_last_error());
  hwloc_topology_destroy(topology);
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  return graph;
}

static int32_t find(const topo_graph_t *graph, const char *name) {
  for (size_t i = 0; i < graph->node_count; i++) {
    if (strcmp(graph->nodes[i].name, name) == 0) return (int32_t)i;
  }
  return TOPO_NONE;
}

static const topo_link_t *link_of(const topo_graph_t *graph, const char *a, const char *b) {
  int32_t from = find(graph, a), to = find(graph, b);
  cr_assert(from != TOPO_NONE && to != TOPO_NONE, "%s or %s is missing", a, b);
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    if ((link->a == from && link->b == to) || (link->a == to && link->b == from)) return link;
  }
  return NULL;
}

static size_t links_of_class(const topo_graph_t *graph, topo_class_t link_class) {
  size_t count = 0;
  for (size_t i = 0; i < graph->link_count; i++) count += graph->links[i].link_class == link_class;
  return count;
}

static const char *parent_of(const topo_graph_t *graph, const char *name) {
  return graph->nodes[graph->nodes[find(graph, name)].parent].name;
}

Test(hwloc, cores_that_share_one_cache_are_linked_through_their_numa_node) {
  topo_graph_t *graph = synthetic("pack:2 numa:2 l3:1 core:4 pu:2");
  cr_assert_eq(topo_graph_count(graph, TOPO_NUMA), 4);
  cr_assert_str_eq(parent_of(graph, "host0/numa3"), "host0/cpu1");
  cr_assert_str_eq(parent_of(graph, "host0/numa3/core3"), "host0/numa3");
  cr_assert_eq(link_of(graph, "host0/numa0", "host0/numa0/core1")->link_class, TOPO_CLASS_CACHE);
  cr_assert_eq(links_of_class(graph, TOPO_CLASS_CACHE), 16);
  cr_assert_eq(links_of_class(graph, TOPO_CLASS_MEMORY), 5);
  topo_graph_free(graph);
}

Test(hwloc, cores_of_several_caches_are_linked_pairwise) {
  topo_graph_t *graph = synthetic("pack:1 numa:1 l3:2 core:4 pu:1");
  cr_assert_eq(links_of_class(graph, TOPO_CLASS_CACHE), 2 * 6);
  cr_assert_eq(link_of(graph, "host0/numa0", "host0/numa0/core7")->link_class, TOPO_CLASS_MEMORY);
  cr_assert_not_null(link_of(graph, "host0/numa0/core4", "host0/numa0/core7"));
  cr_assert_null(link_of(graph, "host0/numa0/core3", "host0/numa0/core4"));
  topo_graph_free(graph);
}

Test(hwloc, ranks_are_placed_on_its_numa_nodes) {
  topo_graph_t *graph = synthetic("numa:2 pack:2 core:4 pu:1");
  topo_placement_t placement;
  cr_assert_eq(topo_place(graph, 8, &placement), COLL_OK, "%s", base_last_error());
  cr_assert(placement.layout->levels >= 1);
  cr_assert_eq(placement.layout->domain_of[7], 0);
  topo_placement_free(&placement);
  topo_graph_free(graph);
}

/* Reads HWLOC_SAMPLE: a made-up server of two packages. Returns the number of bytes. */
static size_t read_sample(char text[static 65536]) {
  FILE *file = fopen(HWLOC_SAMPLE, "r");
  cr_assert_not_null(file, "%s is missing", HWLOC_SAMPLE);
  size_t bytes = fread(text, 1, 65536, file);
  cr_assert(feof(file));
  fclose(file);
  return bytes;
}

static topo_graph_t *sample(void) {
  static char text[65536];
  topo_graph_t *graph;
  size_t bytes = read_sample(text);
  cr_assert_eq(topo_graph_from_hwloc_xml(text, bytes, "sample.xml", NULL, &graph), COLL_OK, "%s",
               base_last_error());
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  return graph;
}

Test(hwloc, bridges_are_nodes_where_they_divide) {
  topo_graph_t *graph = sample();
  cr_assert_eq(topo_graph_count(graph, TOPO_PCI_SWITCH), 3, "two root complexes and a switch");
  cr_assert_eq(topo_graph_count(graph, TOPO_GPU), 2, "the management controller is none");
  cr_assert_eq(topo_graph_count(graph, TOPO_NIC), 3, "one of each PCI function");
  cr_assert_str_eq(parent_of(graph, "host0/pci0"), "host0/numa0");
  cr_assert_str_eq(parent_of(graph, "host0/pci1"), "host0/pci0");
  cr_assert_str_eq(parent_of(graph, "host0/gpu0"), "host0/pci1");
  cr_assert_str_eq(parent_of(graph, "host0/nic0"), "host0/pci1");
  cr_assert_str_eq(parent_of(graph, "host0/nic1"), "host0/pci2", "a port with one device");
  cr_assert_str_eq(parent_of(graph, "host0/gpu1"), "host0/pci2");
  topo_graph_free(graph);
}

Test(hwloc, devices_have_names_and_links_the_speed_of_the_slowest_part) {
  topo_graph_t *graph = sample();
  cr_assert_str_eq(graph->nodes[0].model, "Sample Server");
  cr_assert_str_eq(graph->nodes[find(graph, "host0/cpu0")].model, "Sample CPU");
  cr_assert_str_eq(graph->nodes[find(graph, "host0/gpu0")].model, "GH100");
  cr_assert_str_eq(graph->nodes[find(graph, "host0/nic0")].model, "mlx5_0");
  cr_assert_str_eq(graph->nodes[find(graph, "host0/nic1")].model, "eth0");
  cr_assert_float_eq(link_of(graph, "host0/pci0", "host0/pci1")->gigabytes_per_s, 31.5, 0.1);
  cr_assert_float_eq(link_of(graph, "host0/pci1", "host0/gpu0")->gigabytes_per_s, 63.0, 0.1);
  cr_assert_float_eq(link_of(graph, "host0/pci2", "host0/nic1")->gigabytes_per_s, 7.9, 0.1);
  cr_assert_eq(link_of(graph, "host0/pci2", "host0/gpu1")->gigabytes_per_s, TOPO_TYPICAL_PCIE_GBS);
  topo_graph_free(graph);
}

Test(hwloc, gpus_are_reached_from_all_cores) {
  topo_graph_t *graph = sample();
  topo_paths_t *paths;
  bool reached[64];
  cr_assert_eq(topo_paths_create(graph, &paths), COLL_OK);
  cr_assert_eq(topo_paths_reach(paths, find(graph, "host0/gpu0"), reached), COLL_OK);
  for (size_t i = 1; i < graph->node_count; i++) {
    cr_assert(reached[i], "%s cannot be reached", graph->nodes[i].name);
  }
  topo_paths_free(paths);
  topo_graph_free(graph);
}

/* Space and comments after the end are no damage, and bandwidths of memory are left out. */
Test(hwloc, xml_is_read_as_hwloc_does) {
  static const char root[] =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
      "<topology version=\"2.0\">\n"
      "  <object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
      "allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\" "
      "gp_index=\"1\">\n"
      "    <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
      "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"2\" local_memory=\"1024\"/>\n"
      "    <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
      "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"3\"/>\n"
      "  </object>\n"
      "  <memattr name=\"Bandwidth\" flags=\"5\">\n"
      "    <memattr_value target_obj_gp_index=\"2\" target_obj_type=\"NUMANode\" value=\"100\" "
      "initiator_cpuset=\"0x1\"/>\n"
      "  </memattr>\n"
      "</topology>\r\n \t<!-- the end -->\n";
  char *warnings;
  size_t bytes;
  topo_graph_t *graph;
  FILE *out = open_memstream(&warnings, &bytes);
  cr_assert_eq(topo_graph_from_hwloc_xml(root, strlen(root), "x.xml", out, &graph), COLL_OK, "%s",
               base_last_error());
  fclose(out);
  cr_expect_eq(topo_graph_count(graph, TOPO_CORE), 1);
  cr_expect_str_eq(warnings,
                   "warning: x.xml:8: <memattr name=\"Bandwidth\"> is left out: of hwloc's "
                   "bandwidths only those of PCIe are read\n");
  free(warnings);
  topo_graph_free(graph);
}

Test(hwloc, damaged_xml_is_refused) {
  static const sample_t bad[] = {
      {"", "does not end with </topology>"},
      {"<topology version=\"2.0\">", "does not end with </topology>"},
      {"<topology version=\"2.0\"></topology>", "hwloc cannot read"},
      {"<!-- -->\n<topology version=\"7.0\"><object type=\"Machine\"/></topology>",
       "x.xml:2: <topology version=\"7.0\"> is newer than what the hwloc"},
      {"{\"nodes\": []}</topology>\n", "hwloc cannot read"}};
  static char whole[65536];
  topo_graph_t *graph;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cr_assert_eq(topo_graph_from_hwloc_xml(bad[i].text, strlen(bad[i].text), "x.xml", NULL, &graph),
                 COLL_ERROR_INVALID, "%s", bad[i].text);
    cr_assert_null(graph);
    cr_assert_not_null(strstr(base_last_error(), bad[i].message), "'%s' does not contain '%s'",
                       base_last_error(), bad[i].message);
    cr_assert_not_null(strstr(base_last_error(), "x.xml:"));
  }
  size_t bytes = read_sample(whole);
  for (size_t cut = 0; cut + 1 < bytes; cut += 97) {
    cr_assert_eq(topo_graph_from_hwloc_xml(whole, cut, "x.xml", NULL, &graph), COLL_ERROR_INVALID,
                 "the first %zu bytes", cut);
  }
}
