/* Graphs of known machines and fabrics: counts and bisection bandwidth against closed formulas. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topo/check.h"
#include "topo/kinds.h"
#include "topo/paths.h"

static topo_graph_t *make(const char *kind, int32_t hosts, const char *fabric) {
  topo_graph_t *graph;
  cr_assert_eq(topo_make(kind, hosts, fabric, &graph), COLL_OK, "%s", base_last_error());
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  return graph;
}

/* ---- bisection ------------------------------------------------------------------------------
 * The maximum flow between the first half of the hosts and the second, by augmenting paths. */

typedef struct flow {
  const topo_graph_t *graph;
  double *sent; /* of each link, from a to b */
  int *side;    /* of each node: 0, 1 in the first half, 2 in the second */
  int32_t *via; /* link by which the search reached the node; -1: none, -2: where it begins */
  int32_t *queue;
} flow_t;

static double room(const flow_t *flow, size_t link, int32_t from) {
  const topo_link_t *each = &flow->graph->links[link];
  return topo_link_width(each) + (each->a == from ? -flow->sent[link] : flow->sent[link]);
}

static int32_t other_end(const topo_link_t *link, int32_t node) {
  return link->a == node ? link->b : link->a;
}

/* The node of the second half where an augmenting path ends, or -1. */
static int32_t search(flow_t *flow) {
  const topo_graph_t *graph = flow->graph;
  size_t head = 0, tail = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    flow->via[i] = flow->side[i] == 1 ? -2 : -1;
    if (flow->side[i] == 1) flow->queue[tail++] = (int32_t)i;
  }
  while (head < tail) {
    int32_t node = flow->queue[head++];
    if (flow->side[node] == 2) return node;
    for (size_t i = 0; i < graph->link_count; i++) {
      const topo_link_t *link = &graph->links[i];
      if (link->a != node && link->b != node) continue;
      int32_t next = other_end(link, node);
      if (flow->via[next] != -1 || room(flow, i, node) < 1e-9) continue;
      flow->via[next] = (int32_t)i;
      flow->queue[tail++] = next;
    }
  }
  return -1;
}

static double augment(flow_t *flow, int32_t end) {
  double most = INFINITY;
  for (int32_t node = end; flow->via[node] >= 0;) {
    size_t link = (size_t)flow->via[node];
    int32_t from = other_end(&flow->graph->links[link], node);
    most = fmin(most, room(flow, link, from));
    node = from;
  }
  for (int32_t node = end; flow->via[node] >= 0;) {
    size_t link = (size_t)flow->via[node];
    flow->sent[link] += flow->graph->links[link].b == node ? most : -most;
    node = other_end(&flow->graph->links[link], node);
  }
  return most;
}

static double bisection(const topo_graph_t *graph, int32_t hosts) {
  size_t nodes = graph->node_count;
  flow_t flow = {graph, calloc(graph->link_count, sizeof(double)), calloc(nodes, sizeof(int)),
                 calloc(nodes, sizeof(int32_t)), calloc(nodes, sizeof(int32_t))};
  double total = 0;
  int32_t seen = 0; /* hosts; a host comes before what it contains */
  for (size_t i = 0; i < nodes; i++) {
    int32_t host = topo_graph_host_of(graph, (int32_t)i);
    if (host == (int32_t)i) flow.side[i] = seen++ < hosts / 2 ? 1 : 2;
    if (host != TOPO_NONE) flow.side[i] = flow.side[host];
  }
  for (int32_t end; (end = search(&flow)) >= 0;) total += augment(&flow, end);
  free(flow.sent);
  free(flow.side);
  free(flow.via);
  free(flow.queue);
  return total;
}

/* ---- fabrics --------------------------------------------------------------------------------*/

typedef struct sample {
  const char *kind, *fabric;
  int32_t hosts;
  size_t switches, links; /* links: of the fabric */
  double bisection;       /* in bandwidths of a NIC; 0: hosts of one group are on both sides */
} sample_t;

/* K-ary fat-tree: 5 K^2 / 4 switches, K^3 / 2 links between them, half the NICs across the middle.
 * Dragonfly of g groups: a g routers, g a (a - 1) / 2 and g (g - 1) / 2 floor(a h / (g - 1)) links
 * between them. Torus: 2 links of each line across the middle, of 1 / (2 dims) each; mesh: 1. */
static const sample_t samples[] = {
    {"dgx-a100", "rail", 4, 8, 4 * 8, 2 * 8},
    {"laptop", "spine-leaf:4,2", 8, 6, 8 + 4 * 2, 4},
    {"laptop", "fat-tree:4", 16, 20, 16 + 32, 8},
    {"laptop", "fat-tree:6", 54, 45, 54 + 108, 27},
    {"dgx-a100", "fat-tree:8", 16, 80, 128 + 256, 64},
    {"laptop", "dragonfly:2,4,2", 16, 8, 16 + 2 * 6 + 8, 8},
    {"laptop", "dragonfly:2,4,2", 64, 32, 64 + 8 * 6 + 28, 4 * 4},
    {"laptop", "dragonfly:2,4,2", 72, 36, 72 + 9 * 6 + 36, 0},
    {"laptop", "dragonfly", 72, 36, 72 + 9 * 6 + 36, 0},
    {"laptop", "dragonfly", 64, 32, 64 + 8 * 6 + 28, 4 * 4},
    {"laptop", "dragonfly", 73, 5 * 6, 73 + 5 * 15 + 10 * 4, 0},
    {"laptop", "dragonfly:4,2,1", 16, 4, 16 + 2 + 2, 2},
    {"laptop", "torus:4x4", 16, 0, 32, 2 * 4 / 4.0},
    {"laptop", "torus:4x2x3", 24, 0, 24 + 24 + 24, 2 * 6 / 6.0},
    {"laptop", "mesh:4x4", 16, 0, 24, 4 / 4.0},
    {"laptop", "mesh:6", 6, 0, 5, 1 / 2.0},
};

enum { SAMPLES = sizeof samples / sizeof samples[0] };

static bool is_of_fabric(const topo_link_t *link) {
  return link->link_class == TOPO_CLASS_ETHERNET || link->link_class == TOPO_CLASS_INFINIBAND ||
         link->link_class == TOPO_CLASS_TORUS;
}

Test(kinds, fabrics_have_the_switches_links_and_bisection_of_their_formulas) {
  for (int i = 0; i < SAMPLES; i++) {
    const sample_t *each = &samples[i];
    topo_graph_t *graph = make(each->kind, each->hosts, each->fabric);
    size_t links = 0;
    for (size_t l = 0; l < graph->link_count; l++) links += is_of_fabric(&graph->links[l]);
    cr_expect_eq(topo_graph_count(graph, TOPO_SWITCH), each->switches, "%s of %d: %zu switches",
                 each->fabric, (int)each->hosts, topo_graph_count(graph, TOPO_SWITCH));
    cr_expect_eq(links, each->links, "%s of %d: %zu links", each->fabric, (int)each->hosts, links);
    double nic_gbs = strcmp(each->kind, "laptop") == 0 ? 0.125 : 25.0;
    double across = each->bisection > 0 ? bisection(graph, each->hosts) / nic_gbs : 0;
    cr_expect(fabs(across - each->bisection) < 1e-6, "%s of %d: bisection of %g NICs, not %g",
              each->fabric, (int)each->hosts, across, each->bisection);
    topo_graph_free(graph);
  }
}

static void expect_ports(const char *fabric, int32_t hosts, int32_t ports, bool all_in_use) {
  topo_graph_t *graph = make("laptop", hosts, fabric);
  for (size_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i].kind != TOPO_SWITCH) continue;
    int32_t used = 0;
    for (size_t l = 0; l < graph->link_count; l++) {
      const topo_link_t *link = &graph->links[l];
      if (link->a == (int32_t)i || link->b == (int32_t)i) used += link->count;
    }
    cr_expect(used <= ports && (used == ports || !all_in_use), "%s: %s has %d ports, not %d",
              fabric, graph->nodes[i].name, (int)used, (int)ports);
  }
  topo_graph_free(graph);
}

Test(kinds, switches_have_as_many_ports_as_stated) {
  expect_ports("fat-tree:4", 16, 4, true);
  expect_ports("fat-tree:6", 54, 6, true);
  expect_ports("fat-tree:6", 20, 6, false);
  expect_ports("dragonfly:2,4,2", 72, 2 + 3 + 2, true);
  expect_ports("dragonfly:2,4,2", 50, 2 + 3 + 2, false);
  expect_ports("dragonfly:1,3,2", 21, 1 + 2 + 2, true);
}

static const struct {
  const char *kind, *fabric, *message; /* message: a part of the expected one */
  int32_t hosts;
} bad[] = {
    {"laptop", "fat-tree:5", "an even number of ports", 4},
    {"laptop", "fat-tree:4", "has 16 ports for 17 NICs", 17},
    {"dgx-a100", "fat-tree:4", "has 16 ports for 24 NICs", 3},
    {"laptop", "fat-tree:", "no fabric 'fat-tree:'", 4},
    {"laptop", "fat-tree:4,4", "no fabric", 4},
    {"laptop", "dragonfly:2,4", "no fabric 'dragonfly:2,4'; give", 4},
    {"laptop", "dragonfly:1,2,1", "has 6 ports for 7 NICs", 7},
    {"laptop", "dragonfly:1,999,1", "numbers up to 128", 7},
    {"laptop", "spine-leaf:5,1", "one leaf switch per host", 4},
    {"laptop", "torus:0x4", "no fabric", 4},
};

Test(kinds, wrong_fabrics_are_refused) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    topo_graph_t *graph;
    cr_assert_eq(topo_make(bad[i].kind, bad[i].hosts, bad[i].fabric, &graph), COLL_ERROR_INVALID,
                 "%s", bad[i].fabric);
    cr_expect(strstr(base_last_error(), bad[i].message) != NULL, "%s", base_last_error());
  }
}

/* ---- machines -------------------------------------------------------------------------------*/

/* GB/s per direction between two nodes, by the widest path. */
static double between(const topo_graph_t *graph, const char *a, const char *b) {
  topo_names_t names;
  topo_paths_t *paths;
  topo_path_t path;
  int32_t twin;
  cr_assert_eq(topo_names_create(graph, &names, &twin), COLL_OK);
  cr_assert_eq(topo_paths_create(graph, &paths), COLL_OK);
  coll_status_t status = topo_path_find(paths, topo_names_find(graph, &names, a),
                                        topo_names_find(graph, &names, b), &path);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  double width = path.gigabytes_per_s;
  topo_path_free(&path);
  topo_paths_free(paths);
  free(names.slots);
  return width;
}

/* What the vendors' data sheets state. */
Test(kinds, machines_have_the_bandwidths_of_their_data_sheets) {
  static const struct {
    const char *kind, *from, *to;
    double gbs;
  } stated[] = {
      {"dgx-a100", "host0/gpu0", "host0/gpu7", 600 / 2.0},
      {"dgx-a100", "host0/gpu0", "host1/gpu0", 200 / 8.0},
      {"dgx-h100", "host0/gpu0", "host0/gpu7", 900 / 2.0},
      {"dgx-h100", "host0/gpu0", "host1/gpu0", 400 / 8.0},
      {"gb200-nvl72", "host0/gpu0", "host1/gpu3", 1800 / 2.0},
      {"gb200-nvl72", "host0/gpu0", "host0/cpu0", 900 / 2.0 / 2.0},
      {"mi300x", "host0/gpu0", "host0/gpu7", 128 / 2.0},
      {"mi300x", "host0/gpu0", "host1/gpu0", 400 / 8.0},
      {"laptop", "host0/cpu0", "host1/cpu0", 1 / 8.0},
  };
  for (size_t i = 0; i < sizeof stated / sizeof stated[0]; i++) {
    topo_graph_t *graph = make(stated[i].kind, 2, "rail");
    double gbs = between(graph, stated[i].from, stated[i].to);
    cr_expect(fabs(gbs - stated[i].gbs) < 1e-9, "%s: %g GB/s between %s and %s, not %g",
              stated[i].kind, gbs, stated[i].from, stated[i].to, stated[i].gbs);
    topo_graph_free(graph);
  }
}
