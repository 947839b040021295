/* Reads and writes graphs, checks that each broken rule has its message, and places ranks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/json.h"
#include "topo/place.h"

#define HOSTS_TEXT                                                      \
  "{\"name\": \"two\",\n \"nodes\": [\n"                                \
  "{\"name\": \"h0\", \"kind\": \"host\"},\n"                           \
  "{\"name\": \"g0\", \"kind\": \"gpu\", \"parent\": \"h0\"},\n"        \
  "{\"name\": \"p0\", \"kind\": \"pci-switch\", \"parent\": \"h0\"},\n" \
  "{\"name\": \"h1\", \"kind\": \"host\"},\n"                           \
  "{\"name\": \"g1\", \"kind\": \"gpu\", \"parent\": \"h1\"}"

static coll_status_t parse(const char *text, topo_graph_t **graph) {
  return topo_graph_parse(text, strlen(text), "x.json", graph);
}

/* The text as written; the caller frees it. */
static char *written(const topo_graph_t *graph) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  cr_assert_eq(topo_graph_write(graph, out), COLL_OK, "%s", base_last_error());
  fclose(out);
  return text;
}

typedef struct sample {
  const char *text, *message; /* message: a part of the expected one */
} sample_t;

static const sample_t bad[] = {
    {"", "x.json:1: the file ends"},
    {"{\"nodes\": [\n{\"name\"", "x.json:2: the file ends in the middle"},
    {"{\"nodes\" 3}", "x.json:1: not JSON"},
    {"[]", "x.json:1: a topology is an object"},
    {"{\"nodes\": [], \"links\": []}", "has no host"},
    {"{\"nodse\": [], \"links\": []}", "unknown key 'nodse'; did you mean 'nodes'?"},
    {"{\"nodes\": [\n\n7], \"links\": []}", "x.json:3: a node must be an object"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"gpu\", \"speed\": 1}], \"links\": []}",
     "x.json:8: unknown key 'speed'"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"gup\"}], \"links\": []}",
     "x.json:8: no kind of node is called 'gup'; did you mean 'gpu'?"},
    {HOSTS_TEXT ",\n{\"name\": \"g0\", \"kind\": \"host\"}], \"links\": []}",
     "x.json:8: two nodes are called 'g0'"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"gpu\"}], \"links\": []}",
     "x.json:8: gpu 'x' is in no host"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"numa\", \"parent\": \"g1\"}], \"links\": []}",
     "x.json:8: numa 'x' cannot be in gpu 'g1'"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"numa\", \"parent\": \"h2\"}], \"links\": []}",
     "x.json:8: no node is called 'h2'"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"package\", \"parent\": \"y\"},"
                "\n{\"name\": \"y\", \"kind\": \"package\", \"parent\": \"x\"}], \"links\": []}",
     "x.json:8: the parents of 'x' form a loop"},
    {HOSTS_TEXT ",\n{\"name\": \"x\", \"kind\": \"package\", \"parent\": \"y\"},"
                "\n{\"name\": \"y\", \"kind\": \"host\"}], \"links\": []}",
     "x.json:8: 'x' comes before its parent 'y'"},
    {HOSTS_TEXT "], \"links\": [\n{\"a\": \"g0\", \"b\": \"p0\", \"class\": \"pcie\", "
                "\"gigabytes_per_s\": 31.5, \"latency_us\": 1},\n{\"a\": \"g1\", \"b\": \"p0\", "
                "\"class\": \"pcie\", \"gigabytes_per_s\": 31.5, \"latency_us\": 1}]}",
     "x.json:9: the pcie link of 'g1' and 'p0' leaves the host"},
    {HOSTS_TEXT "], \"links\": [\n{\"a\": \"g0\", \"b\": \"p0\", \"class\": \"pcie\", "
                "\"gigabytes_per_s\": -1, \"latency_us\": 1}]}",
     "x.json:8: \"gigabytes_per_s\" must be a number that is not negative"},
    {HOSTS_TEXT "], \"links\": [\n{\"a\": \"g0\", \"b\": \"p0\", \"class\": \"pcie\", "
                "\"gigabytes_per_s\": 0, \"latency_us\": 1}]}",
     "x.json:8: the link of 'g0' and 'p0' needs a bandwidth above 0"},
    {HOSTS_TEXT "], \"links\": [\n{\"a\": \"g0\", \"b\": \"g1\", \"class\": \"torus\", "
                "\"gigabytes_per_s\": 5, \"latency_us\": 1}]}",
     "x.json:8: the torus link of 'g0' and 'g1' must connect two hosts"},
    {HOSTS_TEXT "],\n\"grid\": {\"extents\": [3], \"wraps\": true}, \"links\": []}",
     "x.json:8: the grid's extents do not multiply to the number of hosts (2)"},
};

Test(graph, each_bad_file_has_its_message) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    topo_graph_t *graph;
    cr_assert_eq(parse(bad[i].text, &graph), COLL_ERROR_INVALID, "%s", bad[i].text);
    cr_assert_null(graph);
    cr_assert_not_null(strstr(base_last_error(), bad[i].message), "'%s' does not contain '%s'",
                       base_last_error(), bad[i].message);
  }
}

Test(graph, ten_megabytes_of_nesting_are_refused) {
  size_t bytes = 10 << 20;
  char *text = malloc(bytes);
  cr_assert_not_null(text);
  memset(text, '[', bytes);
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_parse(text, bytes, "x.json", &graph), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "x.json:1: not JSON"), "%s", base_last_error());
  free(text);
}

/* `hosts` hosts of two packages with `gpus` GPUs and two cores each, joined in a ring. */
static topo_graph_t *machine(int32_t hosts, int32_t gpus) {
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_create("machine", &graph), COLL_OK);
  for (int32_t h = 0; h < hosts; h++) {
    int32_t host, package, node;
    char name[32];
    snprintf(name, sizeof name, "h%d", h);
    cr_assert_eq(topo_graph_add_node(graph, TOPO_HOST, TOPO_NONE, name, &host), COLL_OK);
    for (int32_t p = 0; p < 2; p++) {
      snprintf(name, sizeof name, "h%d/p%d", h, p);
      cr_assert_eq(topo_graph_add_node(graph, TOPO_PACKAGE, host, name, &package), COLL_OK);
      for (int32_t i = 0; i < gpus + 2; i++) {
        snprintf(name, sizeof name, "h%d/p%d/%d", h, p, i);
        topo_kind_t kind = i < gpus ? TOPO_GPU : TOPO_CORE;
        cr_assert_eq(topo_graph_add_node(graph, kind, package, name, &node), COLL_OK);
        const topo_link_t link = {package, node, TOPO_CLASS_PCIE, 2, 31.507692307692307, 0.1};
        cr_assert_eq(topo_graph_add_link(graph, &link), COLL_OK);
      }
    }
  }
  graph->grid = (topo_grid_t){.dims = 1, .extents = {hosts}, .wraps = true};
  return graph;
}

Test(graph, what_was_written_reads_and_writes_the_same) {
  topo_graph_t *graph = machine(3, 2), *read;
  snprintf(graph->nodes[0].model, TOPO_NAME_BYTES, "a \"quoted\" model");
  char *first = written(graph);
  cr_assert_eq(parse(first, &read), COLL_OK, "%s", base_last_error());
  char *second = written(read);
  cr_assert_str_eq(first, second);
  cr_assert_eq(read->node_count, graph->node_count);
  cr_assert_eq(read->link_count, graph->link_count);
  cr_assert_eq(read->links[0].gigabytes_per_s, 31.507692307692307);
  cr_assert(read->grid.dims == 1 && read->grid.extents[0] == 3 && read->grid.wraps);
  for (size_t cut = 0; cut + 1 < strlen(first); cut += 7) {
    topo_graph_t *part;
    cr_assert_eq(topo_graph_parse(first, cut, "x.json", &part), COLL_ERROR_INVALID);
  }
  free(first);
  free(second);
  topo_graph_free(graph);
  topo_graph_free(read);
}

Test(graph, a_copy_writes_the_same) {
  topo_graph_t *graph = machine(3, 2), *copy, *empty;
  cr_assert_eq(topo_graph_copy(graph, &copy), COLL_OK, "%s", base_last_error());
  char *first = written(graph);
  topo_graph_free(graph);
  char *second = written(copy);
  cr_assert_str_eq(first, second);
  free(first);
  free(second);
  topo_graph_free(copy);
  cr_assert_eq(topo_graph_create("", &graph), COLL_OK);
  cr_assert_eq(topo_graph_copy(graph, &empty), COLL_OK, "%s", base_last_error());
  cr_assert_eq(empty->node_count, 0);
  topo_graph_free(graph);
  topo_graph_free(empty);
}

Test(place, fills_hosts_evenly_in_contiguous_blocks) {
  topo_graph_t *graph = machine(3, 2);
  static const int32_t expected[] = {0, 0, 0, 1, 1, 2, 2};
  topo_placement_t placement;
  cr_assert_eq(topo_place(graph, 7, &placement), COLL_OK, "%s", base_last_error());
  const topo_layout_t *layout = placement.layout;
  cr_assert(layout->levels == 2 && layout->level[0].kind == TOPO_HOST);
  cr_assert(layout->level[1].kind == TOPO_PACKAGE && layout->level[1].groups == 4);
  for (int32_t rank = 0; rank < 7; rank++) {
    cr_assert_eq(layout->level[0].group_of[rank], expected[rank]);
    cr_assert_eq(layout->domain_of[rank], expected[rank]);
    cr_assert_eq(topo_graph_host_of(graph, placement.gpu_of[rank]), placement.host_of[rank]);
  }
  cr_assert_str_eq(graph->nodes[placement.gpu_of[2]].name, "h0/p1/0");
  cr_assert_str_eq(graph->nodes[placement.core_of[2]].name, "h0/p1/2");
  cr_assert_eq(placement.core_count[2], 2, "both cores of the package");
  cr_assert_eq(placement.core_count[0], 1, "shared with rank 1");
  cr_assert_eq(layout->dims, 0);
  topo_placement_free(&placement);
  topo_graph_free(graph);
}

Test(place, one_rank_per_host_takes_over_the_grid) {
  topo_graph_t *graph = machine(4, 0);
  topo_placement_t placement;
  cr_assert_eq(topo_place(graph, 4, &placement), COLL_OK, "%s", base_last_error());
  cr_assert(placement.layout->dims == 1 && placement.layout->extents[0] == 4);
  cr_assert(placement.layout->wraps && placement.gpu_of[3] == TOPO_NONE);
  topo_placement_free(&placement);
  cr_assert_eq(topo_place(graph, 2, &placement), COLL_OK, "%s", base_last_error());
  cr_assert_eq(placement.layout->dims, 0);
  cr_assert_str_eq(graph->nodes[placement.host_of[1]].name, "h1");
  topo_placement_free(&placement);
  cr_assert_eq(topo_place(graph, 0, &placement), COLL_ERROR_INVALID);
  topo_graph_free(graph);
}
