/* colltopo paths: the widest path between two nodes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tools/colltopo/colltopo.h"
#include "topo/check.h"
#include "topo/paths.h"
#include "topo/place.h"

static coll_status_t refuse_name(const topo_graph_t *graph, const char *name) {
  const char **names;
  COLL_TRY(base_alloc(graph->node_count + 1, sizeof *names, "names", (void **)&names));
  for (size_t i = 0; i < graph->node_count; i++) names[i] = graph->nodes[i].name;
  coll_status_t status = base_fail(COLL_ERROR_INVALID, "no node '%s'; did you mean '%s'?", name,
                                   base_text_nearest(name, names, graph->node_count));
  free(names);
  return status;
}

/* placement: NULL: the name is that of a node; else a rank. */
static coll_status_t find_node(const topo_graph_t *graph, const topo_names_t *names,
                               const topo_placement_t *placement, const char *name, int32_t *node) {
  int64_t rank;
  if (placement == NULL) {
    *node = topo_names_find(graph, names, name);
    return *node != TOPO_NONE ? COLL_OK : refuse_name(graph, name);
  }
  if (!base_text_integer(name, 0, placement->layout->size - 1, &rank)) {
    return base_fail(COLL_ERROR_INVALID, "no rank '%s'; with --ranks give numbers from 0 to %d",
                     name, (int)placement->layout->size - 1);
  }
  *node = topo_placement_node(placement, graph, (int32_t)rank);
  return COLL_OK;
}

static coll_status_t find_path(const topo_graph_t *graph, int32_t from, int32_t to,
                               topo_path_t *path) {
  topo_paths_t *paths;
  COLL_TRY(topo_paths_create(graph, &paths));
  coll_status_t status = topo_path_find(paths, from, to, path);
  topo_paths_free(paths);
  return status;
}

static void print_path(const topo_graph_t *graph, const topo_path_t *path) {
  printf("%s\n", graph->nodes[path->nodes[0]].name);
  for (int32_t hop = 0; hop < path->hops; hop++) {
    const topo_link_t *link = &graph->links[path->links[hop]];
    printf("  %-24s %-10s %2d x %6.4g GB/s  %6.4g us\n", graph->nodes[path->nodes[hop + 1]].name,
           topo_class_name(link->link_class), (int)link->count, link->gigabytes_per_s,
           link->latency_us);
  }
  if (path->hops > 0) {
    printf("%.4g GB/s, %.4g us, %d links\n", path->gigabytes_per_s, path->latency_us,
           (int)path->hops);
  }
}

static coll_status_t print_between(const topo_graph_t *graph, const topo_placement_t *placement,
                                   const char *const ends[2]) {
  topo_names_t names;
  topo_path_t path;
  int32_t twin, from, to;
  COLL_TRY(topo_names_create(graph, &names, &twin));
  coll_status_t status = find_node(graph, &names, placement, ends[0], &from);
  if (status == COLL_OK) status = find_node(graph, &names, placement, ends[1], &to);
  free(names.slots);
  COLL_TRY(status);
  COLL_TRY(find_path(graph, from, to, &path));
  print_path(graph, &path);
  topo_path_free(&path);
  return COLL_OK;
}

/* ranks: 0: the ends are nodes. */
static coll_status_t print_path_of(const topo_graph_t *graph, int32_t ranks, topo_map_t map,
                                   const char *const ends[2]) {
  topo_placement_t placement;
  if (ranks == 0) return print_between(graph, NULL, ends);
  COLL_TRY(topo_place_mapped(graph, ranks, map, &placement));
  coll_status_t status = print_between(graph, &placement, ends);
  topo_placement_free(&placement);
  return status;
}

int colltopo_paths(int argc, char **argv) {
  int64_t ranks = 0;
  int map = TOPO_MAP_BY_HOST;
  const char *words[3];
  const base_option_t options[] = {{'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N",
                                    "A and B are two of N ranks instead of nodes", 1, 65536, NULL},
                                   colltopo_map_option(&map)};
  const base_command_t command = {
      .name = "colltopo paths",
      .usage = "FILE A B [--ranks N [--map HOW]]",
      .summary =
          "Prints the widest path from A to B and, of those, the one of lowest latency. GPUs and "
          "cores do\nnot forward. Bandwidths are per direction.",
      .examples =
          "  colltopo paths dgx4.json host0/gpu0 host1/gpu0\n      between two hosts\n"
          "  colltopo paths dgx4.json 0 1 -n 16 --map by-rail\n      between two ranks\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  topo_graph_t *graph;
  int code;
  if (!colltopo_open(&command, argc, argv, words, 3, &graph, &code)) return code;
  return colltopo_close(graph, print_path_of(graph, (int32_t)ranks, (topo_map_t)map, words + 1));
}
