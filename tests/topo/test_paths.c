/* Paths, compared with all paths that there are. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "topo/kinds.h"
#include "topo/paths.h"

enum { NODES = 7, LINKS_MAX = 14, GRAPHS = 300 };

static unsigned state = 12345;

static int below(int bound) {
  state = state * 1664525u + 1013904223u;
  return (int)((state >> 8) % (unsigned)bound);
}

static topo_graph_t *random_graph(void) {
  static const topo_kind_t kinds[] = {TOPO_SWITCH, TOPO_SWITCH, TOPO_NVSWITCH, TOPO_GPU};
  topo_graph_t *graph;
  cr_assert_eq(topo_graph_create("random", &graph), COLL_OK);
  for (int i = 0; i < NODES; i++) {
    char name[16];
    int32_t node;
    snprintf(name, sizeof name, "node%d", i);
    cr_assert_eq(topo_graph_add_node(graph, kinds[below(4)], TOPO_NONE, name, &node), COLL_OK);
  }
  for (int i = below(LINKS_MAX) + 3; i > 0; i--) {
    int a = below(NODES), b = below(NODES);
    if (a == b) continue;
    const topo_link_t link = {.a = a,
                              .b = b,
                              .link_class = TOPO_CLASS_ETHERNET,
                              .count = 1 + below(2),
                              .gigabytes_per_s = 1 + below(4),
                              .latency_us = below(5)};
    cr_assert_eq(topo_graph_add_link(graph, &link), COLL_OK);
  }
  return graph;
}

typedef struct best {
  double width, latency_us; /* width 0: none found */
} best_t;

/* Tries all paths without loops that extend one from `from` to `node`. */
static void try_all(const topo_graph_t *graph, int32_t node, int32_t to, unsigned visited,
                    best_t now, best_t *best) {
  if (node == to) {
    bool better =
        now.width > best->width || (now.width == best->width && now.latency_us < best->latency_us);
    if (better) *best = now;
    return;
  }
  if ((visited & (visited - 1)) != 0 && graph->nodes[node].kind == TOPO_GPU) return;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    int32_t next = link->a == node ? link->b : link->b == node ? link->a : TOPO_NONE;
    if (next == TOPO_NONE || (visited & (1u << next)) != 0) continue;
    best_t then = {.width = fmin(now.width, topo_link_width(link)),
                   .latency_us = now.latency_us + link->latency_us};
    try_all(graph, next, to, visited | (1u << next), then, best);
  }
}

static void check_hops(const topo_graph_t *graph, const topo_path_t *path) {
  for (int32_t hop = 0; hop < path->hops; hop++) {
    const topo_link_t *link = &graph->links[path->links[hop]];
    int32_t a = path->nodes[hop], b = path->nodes[hop + 1];
    cr_assert((link->a == a && link->b == b) || (link->a == b && link->b == a));
  }
}

Test(paths, are_the_best_of_all) {
  int connected = 0, apart = 0;
  for (int i = 0; i < GRAPHS; i++) {
    topo_graph_t *graph = random_graph();
    topo_paths_t *paths;
    cr_assert_eq(topo_paths_create(graph, &paths), COLL_OK);
    for (int32_t from = 0; from < NODES; from++) {
      for (int32_t to = 0; to < NODES; to++) {
        best_t best = {0};
        topo_path_t path;
        try_all(graph, from, to, 1u << from, (best_t){.width = INFINITY}, &best);
        coll_status_t status = topo_path_find_flow(paths, from, to, below(6), &path);
        cr_assert_eq(status == COLL_OK, best.width > 0, "%d to %d", (int)from, (int)to);
        if (status != COLL_OK) {
          apart++;
          continue;
        }
        connected++;
        cr_assert_eq(path.nodes[0], from);
        cr_assert_eq(path.nodes[path.hops], to);
        check_hops(graph, &path);
        cr_assert(path.gigabytes_per_s == best.width && path.latency_us == best.latency_us,
                  "%d to %d: %g GB/s and %g us, but %g GB/s and %g us is possible", (int)from,
                  (int)to, path.gigabytes_per_s, path.latency_us, best.width, best.latency_us);
        topo_path_free(&path);
      }
    }
    topo_paths_free(paths);
    topo_graph_free(graph);
  }
  cr_assert_gt(connected, 1000);
  cr_assert_gt(apart, 1000);
}

/* Within a DGX the NVSwitch is wider than PCIe, and between two of them the rail. */
Test(paths, of_a_known_machine) {
  topo_graph_t *graph;
  topo_paths_t *paths;
  topo_path_t path;
  int32_t gpus[16], count = 0;
  cr_assert_eq(topo_make("dgx-h100", 2, "rail", &graph), COLL_OK);
  for (size_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i].kind == TOPO_GPU) gpus[count++] = (int32_t)i;
  }
  cr_assert_eq(count, 16);
  cr_assert_eq(topo_paths_create(graph, &paths), COLL_OK);
  cr_assert_eq(topo_path_find(paths, gpus[0], gpus[5], &path), COLL_OK);
  cr_assert_eq(path.hops, 2);
  cr_assert_eq(graph->nodes[path.nodes[1]].kind, TOPO_NVSWITCH);
  topo_path_free(&path);
  cr_assert_eq(topo_path_find(paths, gpus[3], gpus[8 + 3], &path), COLL_OK);
  int nics = 0;
  for (int32_t i = 0; i <= path.hops; i++) nics += graph->nodes[path.nodes[i]].kind == TOPO_NIC;
  cr_assert_eq(nics, 2);
  topo_path_free(&path);
  topo_paths_free(paths);
  topo_graph_free(graph);
}
