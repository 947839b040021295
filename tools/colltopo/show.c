/* colltopo show: hosts and what they contain as a tree, and the links by class. Neighbours that are
 * alike share a line. */
#include <stdio.h>
#include <string.h>

#include "tools/colltopo/colltopo.h"

/* The next node after `node` with the same parent, or TOPO_NONE. */
static int32_t next_sibling(const topo_graph_t *graph, int32_t node) {
  for (size_t i = (size_t)node + 1; i < graph->node_count; i++) {
    if (graph->nodes[i].parent == graph->nodes[node].parent) return (int32_t)i;
  }
  return TOPO_NONE;
}

static int32_t first_child(const topo_graph_t *graph, int32_t parent) {
  for (size_t i = (size_t)(parent + 1); i < graph->node_count; i++) {
    if (graph->nodes[i].parent == parent) return (int32_t)i;
  }
  return TOPO_NONE;
}

/* Whether two nodes contain the same kinds of nodes in the same order. */
static bool are_alike(const topo_graph_t *graph, int32_t a, int32_t b) {
  const topo_node_t *left = &graph->nodes[a], *right = &graph->nodes[b];
  if (left->kind != right->kind || strcmp(left->model, right->model) != 0) return false;
  int32_t i = first_child(graph, a), j = first_child(graph, b);
  while (i != TOPO_NONE && j != TOPO_NONE) {
    if (!are_alike(graph, i, j)) return false;
    i = next_sibling(graph, i);
    j = next_sibling(graph, j);
  }
  return i == j;
}

/* The last part of the name of a node that another one contains. */
static const char *short_name(const topo_graph_t *graph, int32_t node) {
  const topo_node_t *each = &graph->nodes[node];
  const char *slash = strrchr(each->name, '/');
  return each->parent == TOPO_NONE || slash == NULL ? each->name : slash + 1;
}

/* Prints the children of `parent` (TOPO_NONE: the outermost nodes), each run of alike ones once. */
static void print_children(const topo_graph_t *graph, int32_t parent, int depth) {
  for (int32_t node = first_child(graph, parent); node != TOPO_NONE;) {
    int32_t last = node, next = next_sibling(graph, node), count = 1;
    while (next != TOPO_NONE && are_alike(graph, node, next)) {
      last = next;
      next = next_sibling(graph, next);
      count++;
    }
    const topo_node_t *each = &graph->nodes[node];
    printf("%*s%s", 2 * depth, "", short_name(graph, node));
    if (count > 1) printf(" ... %s", short_name(graph, last));
    printf("  (");
    if (count > 1) printf("%d alike, each ", (int)count);
    printf("%s%s%s)\n", topo_kind_name(each->kind), each->model[0] != '\0' ? ": " : "",
           each->model);
    print_children(graph, node, depth + 1);
    node = next;
  }
}

static bool same_rate(const topo_link_t *a, const topo_link_t *b) {
  return a->link_class == b->link_class && a->count == b->count &&
         a->gigabytes_per_s == b->gigabytes_per_s && a->latency_us == b->latency_us;
}

static void print_links(const topo_graph_t *graph) {
  printf("\n%8s  %-12s %5s %10s %10s\n", "links", "class", "each", "GB/s", "us");
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    size_t alike = 0, first = i;
    for (size_t j = 0; j < i && first == i; j++) {
      if (same_rate(link, &graph->links[j])) first = j;
    }
    if (first < i) continue;
    for (size_t j = i; j < graph->link_count; j++) alike += same_rate(link, &graph->links[j]);
    printf("%8zu  %-12s %3d x %10.4g %10.4g\n", alike, topo_class_name(link->link_class),
           (int)link->count, link->gigabytes_per_s, link->latency_us);
  }
}

int colltopo_show(int argc, char **argv) {
  const char *file;
  const base_command_t command = {
      .name = "colltopo show",
      .usage = "FILE",
      .summary =
          "Prints hosts and what they contain as a tree; neighbours that are alike share a line. "
          "Then the\nlinks: how many, of how many parallel ones each, GB/s per direction and "
          "latency of one.",
      .examples = "  colltopo make dgx-h100 | colltopo show -\n      one machine\n"};
  topo_graph_t *graph;
  int code;
  if (!colltopo_open(&command, argc, argv, &file, 1, &graph, &code)) return code;
  print_children(graph, TOPO_NONE, 0);
  if (graph->link_count > 0) print_links(graph);
  if (graph->grid.dims > 0) {
    printf("\n%s of", graph->grid.wraps ? "torus" : "mesh");
    for (int32_t d = 0; d < graph->grid.dims; d++) {
      printf("%s%d", d == 0 ? " " : " x ", (int)graph->grid.extents[d]);
    }
    printf(" hosts\n");
  }
  return colltopo_close(graph, COLL_OK);
}
