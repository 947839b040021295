/* colltopo layout: where the ranks of a job are placed. */
#include <stdio.h>

#include "tools/colltopo/colltopo.h"
#include "topo/place.h"

static void print_ranks(const topo_graph_t *graph, const topo_placement_t *placement) {
  printf("%6s  %-16s %-20s %s\n", "rank", "host", "gpu", "cores");
  for (int32_t rank = 0; rank < placement->layout->size; rank++) {
    int32_t gpu = placement->gpu_of[rank], core = placement->core_of[rank];
    printf("%6d  %-16s %-20s ", rank, graph->nodes[placement->host_of[rank]].name,
           gpu != TOPO_NONE ? graph->nodes[gpu].name : "-");
    if (core == TOPO_NONE) {
      printf("-\n");
    } else {
      printf("%d from %s\n", placement->core_count[rank], graph->nodes[core].name);
    }
  }
}

int colltopo_layout(int argc, char **argv) {
  int64_t ranks = 1;
  int map = TOPO_MAP_BY_HOST;
  const char *file;
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N", "number of ranks", 1, 65536, NULL},
      colltopo_map_option(&map)};
  const base_command_t command = {
      .name = "colltopo layout",
      .usage = "FILE -n RANKS [--map HOW]",
      .summary =
          "Prints the groups of ranks that a job has on the hosts of a file, and the host, "
          "GPU and cores of each rank.",
      .examples =
          "  colltopo layout dgx4.json -n 16\n      four ranks on each of four hosts\n"
          "  colltopo layout dgx4.json -n 16 --map by-rail\n      neighbours on different hosts\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  topo_graph_t *graph;
  int code;
  if (!colltopo_open(&command, argc, argv, &file, 1, &graph, &code)) return code;
  topo_placement_t placement;
  coll_status_t status = topo_place_mapped(graph, (int32_t)ranks, (topo_map_t)map, &placement);
  if (status == COLL_OK) {
    topo_layout_print(placement.layout, stdout);
    print_ranks(graph, &placement);
    topo_placement_free(&placement);
  }
  return colltopo_close(graph, status);
}
