/* The same placement that the library makes of the file. */
#include "tools/collrun/layout.h"

#include <stdio.h>
#include <stdlib.h>

#include "topo/json.h"
#include "topo/place.h"

coll_status_t collrun_layout_print(int ranks, topo_map_t map) {
  const char *file_name = getenv("COLL_TOPO_FILE");
  topo_graph_t *graph;
  topo_placement_t placement;
  if (file_name == NULL || file_name[0] == '\0') {
    return base_fail(COLL_ERROR_INVALID,
                     "--show-layout: COLL_TOPO_FILE is not set; without a file all ranks are on "
                     "this host");
  }
  COLL_TRY(topo_graph_load(file_name, &graph));
  coll_status_t status = topo_place_mapped(graph, ranks, map, &placement);
  if (status == COLL_OK) {
    topo_layout_print(placement.layout, stdout);
    topo_placement_free(&placement);
  }
  topo_graph_free(graph);
  return status;
}
