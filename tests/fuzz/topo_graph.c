/*
 * Graphs of machines as JSON. What is accepted is written and read again, has ranks placed on it,
 * and is searched for paths.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "topo/check.h"
#include "topo/json.h"
#include "topo/paths.h"
#include "topo/place.h"

#define NODES_MAX 64 /* of graphs on which ranks are placed */

static void write_again(const topo_graph_t *graph) {
  fuzz_text_t first, second;
  topo_graph_t *copy;
  fuzz_text_begin(&first);
  fuzz_require(topo_graph_write(graph, first.out) == COLL_OK, "an accepted graph can be written");
  fuzz_text_end(&first);
  fuzz_require(topo_graph_parse(first.text, first.bytes, "again", &copy) == COLL_OK,
               "a written graph is accepted");
  fuzz_text_begin(&second);
  fuzz_require(topo_graph_write(copy, second.out) == COLL_OK, "it can be written again");
  fuzz_text_end(&second);
  fuzz_require(first.bytes == second.bytes && memcmp(first.text, second.text, first.bytes) == 0,
               "equal graphs give equal bytes");
  topo_graph_free(copy);
  free(first.text);
  free(second.text);
}

static void find_paths(const topo_graph_t *graph) {
  topo_paths_t *paths;
  topo_path_t path;
  int32_t last = (int32_t)graph->node_count - 1;
  if (last < 0) return;
  fuzz_require(topo_paths_create(graph, &paths) == COLL_OK, "an accepted graph has paths");
  if (topo_path_find(paths, 0, last, &path) == COLL_OK) topo_path_free(&path);
  if (topo_path_find_flow(paths, last, 0, 3, &path) == COLL_OK) topo_path_free(&path);
  topo_paths_free(paths);
}

/* Takes the graph over if this is the last placement. */
static bool place(topo_graph_t *graph, int32_t ranks, bool is_last) {
  topo_placement_t placement;
  if (topo_place(graph, ranks, &placement) != COLL_OK) return false;
  for (int32_t rank = 0; rank < ranks; rank++) topo_placement_node(&placement, graph, rank);
  if (is_last) (void)topo_placement_add_fabric(&placement, graph);
  fuzz_text_t table;
  fuzz_text_begin(&table);
  topo_layout_print(placement.layout, table.out);
  fuzz_text_end(&table);
  free(table.text);
  topo_placement_free(&placement);
  return is_last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  topo_graph_t *graph;
  if (topo_graph_parse((const char *)data, bytes, "input", &graph) != COLL_OK) return 0;
  fuzz_require(topo_graph_check(graph, NULL) == COLL_OK, "an accepted graph passes the check");
  write_again(graph);
  find_paths(graph);
  bool taken = false;
  if (graph->node_count <= NODES_MAX) {
    place(graph, 1, false);
    place(graph, 5, false);
    taken = place(graph, 16, true);
  }
  if (!taken) topo_graph_free(graph);
  return 0;
}
