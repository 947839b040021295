/* Graphs as hwloc's XML: hwloc accepts it, and reading it back gives the same machine. */
#include <criterion/criterion.h>
#include <hwloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/hwloc_graph.h"
#include "topo/hwloc_xml.h"
#include "topo/json.h"
#include "topo/kinds.h"

static char *written(const topo_graph_t *graph, const char *host, char **warnings) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes), *warned = open_memstream(warnings, &bytes);
  coll_status_t status = topo_graph_to_hwloc_xml(graph, host, out, warned);
  fclose(out);
  fclose(warned);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  return text;
}

/* hwloc's own check of its data structures ends the process if something is wrong. */
static void expect_loaded(const char *text, size_t counts[TOPO_KIND_COUNT]) {
  hwloc_topology_t topology;
  cr_assert_eq(hwloc_topology_init(&topology), 0);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  cr_assert_eq(hwloc_topology_set_xmlbuffer(topology, text, (int)strlen(text) + 1), 0);
  cr_assert_eq(hwloc_topology_load(topology), 0);
  hwloc_topology_check(topology);
  cr_expect_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), (int)counts[TOPO_CORE]);
  cr_expect_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU), (int)counts[TOPO_CORE]);
  cr_expect_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), (int)counts[TOPO_PACKAGE]);
  cr_expect_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), (int)counts[TOPO_NUMA]);
  cr_expect_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PCI_DEVICE),
               (int)(counts[TOPO_GPU] + counts[TOPO_NIC]));
  cr_expect_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_OS_DEVICE), (int)counts[TOPO_NIC]);
  hwloc_topology_destroy(topology);
}

/* A host keeps what it has; it gets NUMA nodes if it has none, one for each package. */
static void expect_kept(const topo_graph_t *graph) {
  static const topo_kind_t kinds[] = {TOPO_HOST, TOPO_PACKAGE, TOPO_NUMA,
                                      TOPO_CORE, TOPO_GPU,     TOPO_NIC};
  size_t counts[TOPO_KIND_COUNT];
  char *warnings, *text = written(graph, NULL, &warnings);
  topo_graph_t *back;
  for (int i = 0; i < TOPO_KIND_COUNT; i++) counts[i] = topo_graph_count(graph, (topo_kind_t)i);
  if (counts[TOPO_NUMA] == 0) {
    counts[TOPO_NUMA] = counts[TOPO_PACKAGE] > 0 ? counts[TOPO_PACKAGE] : 1;
  }
  expect_loaded(text, counts);
  cr_assert_eq(topo_graph_from_hwloc_xml(text, strlen(text), "x.xml", NULL, &back), COLL_OK, "%s",
               base_last_error());
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    cr_expect_eq(topo_graph_count(back, kinds[i]), counts[kinds[i]], "%s: %zu, not %zu",
                 topo_kind_name(kinds[i]), topo_graph_count(back, kinds[i]), counts[kinds[i]]);
  }
  free(warnings);
  free(text);
  topo_graph_free(back);
}

Test(hwloc_xml, known_machines) {
  static const char *const kinds[] = {"dgx-a100", "dgx-h100", "gb200-nvl72", "mi300x", "laptop"};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    topo_graph_t *graph;
    cr_assert_eq(topo_make(kinds[i], 1, "rail", &graph), COLL_OK);
    expect_kept(graph);
    topo_graph_free(graph);
  }
}

#define NODE(name, kind, parent) \
  "{\"name\": \"" name "\", \"kind\": \"" kind "\", \"parent\": \"" parent "\"},"

/* NUMA nodes of a package, packages whose cores alternate, which hwloc wants in order, one of no
 * package, memory without cores, devices everywhere, nested switches, and a name that XML reserves.
 */
static const char odd[] =
    "{\"nodes\": [{\"name\": \"h\", \"kind\": \"host\"},"  //
    NODE("p", "package", "h") NODE("n0", "numa", "p") NODE("n1", "numa", "p")
    NODE("n2", "numa", "h") NODE("n3", "numa", "h") NODE("n4", "numa", "p")
    NODE("c0", "core", "n0") NODE("c1", "core", "n1") NODE("c2", "core", "n2")
    NODE("c3", "core", "n0") NODE("c4", "core", "p")
    NODE("q", "package", "h") NODE("c5", "core", "q")
    NODE("c6", "core", "n0") NODE("c7", "core", "q")
    NODE("s0", "pci-switch", "n1") NODE("s1", "pci-switch", "s0")
    NODE("g0", "gpu", "s1") NODE("g1", "gpu", "n3") NODE("g2", "gpu", "h")
    NODE("a<\\\"&", "nic", "s1")
    "{\"name\": \"nic1\", \"kind\": \"nic\", \"parent\": \"n4\"}],"
    "\"links\": [{\"a\": \"n1\", \"b\": \"s0\", \"class\": \"pcie\", \"gigabytes_per_s\": 200,"
    "\"latency_us\": 0}]}";

Test(hwloc_xml, uneven_hosts) {
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_parse(odd, strlen(odd), "x.json", &graph), COLL_OK, "%s",
               base_last_error());
  size_t counts[TOPO_KIND_COUNT];
  for (int i = 0; i < TOPO_KIND_COUNT; i++) counts[i] = topo_graph_count(graph, (topo_kind_t)i);
  counts[TOPO_NUMA]++; /* that of the package without one */
  char *warnings, *text = written(graph, NULL, &warnings);
  expect_loaded(text, counts);
  free(text);
  free(warnings);
  topo_graph_free(graph);
}

/* As under a parent that does not wait for its children. */
Test(hwloc_xml, is_read_where_children_are_ignored) {
  topo_graph_t *graph;
  signal(SIGCHLD, SIG_IGN);
  cr_assert_eq(topo_make("laptop", 1, "rail", &graph), COLL_OK);
  expect_kept(graph);
  cr_assert(signal(SIGCHLD, SIG_DFL) == SIG_IGN, "what the caller set is left");
  topo_graph_free(graph);
}

Test(hwloc_xml, a_host_of_cores_only) {
  static const char plain[] = "{\"nodes\": [{\"name\": \"h\", \"kind\": \"host\"},"  //
      NODE("c0", "core",
           "h") "{\"name\": \"g\", \"kind\": \"gpu\", \"parent\": \"h\"}], \"links\": []}";
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_parse(plain, strlen(plain), "x.json", &graph), COLL_OK);
  expect_kept(graph);
  topo_graph_free(graph);
}

Test(hwloc_xml, what_does_not_fit) {
  static const char empty[] = "{\"nodes\": [{\"name\": \"h\", \"kind\": \"host\"}], \"links\": []}";
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_parse(empty, strlen(empty), "x.json", &graph), COLL_OK);
  cr_expect_eq(topo_graph_to_hwloc_xml(graph, NULL, stdout, stderr), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "'h' has no cores") != NULL, "%s", base_last_error());
  topo_graph_free(graph);
  cr_assert_eq(topo_make("laptop", 2, NULL, &graph), COLL_OK);
  cr_expect_eq(topo_graph_to_hwloc_xml(graph, NULL, stdout, stderr), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "has 2 hosts and hwloc's XML describes one") != NULL, "%s",
            base_last_error());
  topo_graph_free(graph);
}
