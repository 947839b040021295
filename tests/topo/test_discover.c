/* What sysfs and NVML add to hwloc's graph of the sample machine; and this machine's graph. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/topo/tree.h"
#include "topo/check.h"
#include "topo/discover.h"
#include "topo/discover_cache.h"
#include "topo/hwloc_graph.h"

static char root[TREE_BYTES];

/* The sample with a NIC of InfiniBand and one of Ethernet, and an interface of a virtual bus that
 * hwloc does not know. */
static topo_graph_t *discover(const char *machine) {
  hwloc_topology_t topology;
  topo_graph_t *graph;
  int64_t *addresses;
  setenv("NVML_STUB", machine, 1);
  tree_make(root);
  tree_link(root, "class/infiniband/mlx5_9/device", "devices/0000:04:00.0");
  tree_add(root, "class/infiniband/mlx5_9/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  tree_add(root, "class/infiniband/mlx5_9/ports/1/link_layer", "InfiniBand\n");
  tree_link(root, "class/net/ib0/device", "devices/0000:04:00.0");
  tree_add(root, "class/net/ib0/speed", "1000\n");
  tree_link(root, "class/net/eth0/device", "devices/0000:81:00.0");
  tree_add(root, "class/net/eth0/speed", "10000\n");
  tree_link(root, "class/net/hv0/device", "devices/vmbus/7");
  tree_add(root, "devices/vmbus/7/numa_node", "1\n");
  tree_add(root, "class/net/hv0/speed", "40000\n");
  cr_assert_eq(hwloc_topology_init(&topology), 0);
  topo_hwloc_keep_io(topology);
  cr_assert_eq(hwloc_topology_set_xml(topology, HWLOC_SAMPLE), 0);
  cr_assert_eq(hwloc_topology_load(topology), 0);
  cr_assert_eq(topo_graph_from_hwloc(topology, &graph, &addresses), COLL_OK);
  hwloc_topology_destroy(topology);
  cr_assert_eq(topo_discover_devices(graph, addresses, root, NVML_STUB_LIBRARY), COLL_OK);
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  free(addresses);
  tree_remove(root);
  return graph;
}

static const topo_link_t *link_of(const topo_graph_t *graph, const char *a, const char *b) {
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    const char *from = graph->nodes[link->a].name, *to = graph->nodes[link->b].name;
    if (strcmp(from, a) == 0 && strcmp(to, b) == 0) return link;
  }
  return NULL;
}

Test(discover, nics_are_connected_as_fast_as_sysfs_reports) {
  topo_graph_t *graph = discover("none");
  const topo_link_t *fast = link_of(graph, "host0/nic0", "switch-infiniband");
  const topo_link_t *slow = link_of(graph, "host0/nic1", "switch-ethernet");
  const topo_link_t *added = link_of(graph, "host0/nic3", "switch-ethernet");
  cr_assert(fast != NULL && slow != NULL && added != NULL);
  cr_assert_eq(fast->link_class, TOPO_CLASS_INFINIBAND);
  cr_assert_float_eq(fast->gigabytes_per_s, 25.0, 1e-9);
  cr_assert_str_eq(graph->nodes[fast->a].model, "mlx5_9");
  cr_assert_eq(slow->link_class, TOPO_CLASS_ETHERNET);
  cr_assert_float_eq(slow->gigabytes_per_s, 1.25, 1e-9);
  cr_assert_str_eq(graph->nodes[added->a].model, "hv0");
  cr_assert_not_null(link_of(graph, "host0/numa1", "host0/nic3"));
  cr_assert_eq(topo_graph_count(graph, TOPO_NIC), 4);
  cr_assert_eq(topo_graph_count(graph, TOPO_SWITCH), 2);
  cr_assert_eq(topo_graph_count(graph, TOPO_NVSWITCH), 0);
  topo_graph_free(graph);
}

Test(discover, nvlinks_between_gpus_are_one_link_with_a_count) {
  topo_graph_t *graph = discover("direct");
  const topo_link_t *link = link_of(graph, "host0/gpu0", "host0/gpu1");
  cr_assert_not_null(link);
  cr_assert(link->link_class == TOPO_CLASS_NVLINK && link->count == 4);
  cr_assert_eq(link->gigabytes_per_s, 25.0);
  cr_assert_str_eq(graph->nodes[link->b].model, "Stub GPU 1");
  topo_graph_free(graph);
}

Test(discover, nvlinks_to_nvswitches_lead_to_one_node) {
  topo_graph_t *graph = discover("switches");
  cr_assert_eq(topo_graph_count(graph, TOPO_NVSWITCH), 1);
  cr_assert_eq(link_of(graph, "host0/gpu1", "host0/nvswitch")->count, 18);
  cr_assert_null(link_of(graph, "host0/gpu0", "host0/gpu1"));
  topo_graph_free(graph);
  graph = discover("refused");
  cr_assert_eq(topo_graph_count(graph, TOPO_NVSWITCH), 0, "the driver allows no access");
  topo_graph_free(graph);
}

Test(discover, this_machine_has_a_graph) {
  topo_graph_t *graph;
  cr_assert_eq(topo_discover(&graph), COLL_OK, "%s", base_last_error());
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  cr_assert(topo_graph_count(graph, TOPO_CORE) > 0);
  topo_graph_free(graph);
}

static int cut_off(const char *path, const struct stat *status, int kind, struct FTW *info) {
  (void)info;
  return kind == FTW_F ? truncate(path, status->st_size / 2) : 0;
}

/* Cuts off what is in the cache folder. */
static void damage_files(void) {
  cr_assert_eq(nftw(root, cut_off, 8, FTW_PHYS), 0);
}

Test(discover, the_graph_is_cached_until_the_file_is_damaged) {
  topo_graph_t *graph, *again;
  bool was_cached;
  char text[TOPO_SUMMARY_BYTES], summary[TOPO_SUMMARY_BYTES];
  tree_make(root);
  setenv("XDG_CACHE_HOME", root, 1);
  cr_assert_eq(topo_discover_cached(&graph, &was_cached), COLL_OK, "%s", base_last_error());
  cr_assert_not(was_cached);
  cr_assert_eq(topo_discover_cached(&again, &was_cached), COLL_OK);
  cr_assert(was_cached);
  cr_assert_str_eq(topo_graph_summary(again, text), topo_graph_summary(graph, summary));
  cr_assert(strncmp(text, "1 host, ", 8) == 0, "%s", text);
  topo_graph_free(again);
  damage_files();
  cr_assert_eq(topo_discover_cached(&again, &was_cached), COLL_OK);
  cr_assert_not(was_cached);
  cr_assert_eq(again->node_count, graph->node_count);
  topo_graph_free(again);
  topo_graph_free(graph);
  tree_remove(root);
}
