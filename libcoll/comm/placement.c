/* Reads the file, and places the ranks on its hosts. */
#include "comm/placement.h"

#include "comm/comm.h"
#include "topo/json.h"
#include "topo/place.h"

coll_status_t comm_placement_read(const char *file_name, int size, topo_layout_t **layout) {
  topo_graph_t *graph;
  topo_placement_t placement;
  *layout = NULL;
  if (file_name[0] == '\0') return COLL_OK;
  COLL_TRY(topo_graph_load(file_name, &graph));
  coll_status_t status = topo_place(graph, size, &placement);
  if (status != COLL_OK) {
    topo_graph_free(graph);
    return status;
  }
  status = topo_placement_add_fabric(&placement, graph);
  if (status == COLL_OK) {
    *layout = placement.layout;
    placement.layout = NULL;
  }
  topo_placement_free(&placement);
  return status;
}

void comm_placement_set(struct coll_comm *comm, topo_layout_t *layout) {
  comm->layout = layout;
  comm->world.layout = layout;
  if (!topo_layout_is_mapped(layout)) comm->world.room.mcast_bytes = 0; /* is in shared memory */
}
