/* Reads the file, and places the ranks on its hosts. */
#include "comm/placement.h"

#include "base/digest.h"
#include "comm/comm.h"
#include "topo/fabric.h"
#include "topo/json.h"
#include "topo/place.h"
#include "transport/paced/paced.h"

coll_status_t comm_placement_read(const char *file_name, topo_map_t map, int size,
                                  topo_layout_t **layout) {
  topo_graph_t *graph;
  topo_placement_t placement;
  *layout = NULL;
  if (file_name[0] == '\0') return COLL_OK;
  COLL_TRY(topo_graph_load(file_name, &graph));
  coll_status_t status = topo_place_mapped(graph, size, map, &placement);
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

static coll_status_t pace(struct coll_comm *comm) {
  topo_fabric_t *fabric = comm->layout != NULL ? comm->layout->fabric : NULL;
  transport_t *paced;
  if (fabric == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "rank %d: COLL_TOPO_PACED is 1, but there are no links to pace: set "
                     "COLL_TOPO_FILE to a file with links between the ranks' hosts or GPUs",
                     comm->rank);
  }
  COLL_TRY(transport_paced_create(comm->local, fabric, &paced));
  for (int rank = 0; rank < comm->size; rank++) {
    if (comm->world.routes[rank] == comm->local) comm->world.routes[rank] = paced;
  }
  comm->local = paced;
  comm->paced = true;
  comm->world.room.mcast_bytes = 0;
  comm->world.room.scratch_bytes -= transport_paced_bytes(comm->size, fabric);
  return COLL_OK;
}

coll_status_t comm_placement_set(struct coll_comm *comm, topo_layout_t *layout, bool paced) {
  comm->layout = layout;
  comm->world.layout = layout;
  if (!topo_layout_is_mapped(layout)) comm->world.room.mcast_bytes = 0; /* is in shared memory */
  return paced && comm->size > 1 ? pace(comm) : COLL_OK;
}

uint64_t comm_placement_digest(const topo_layout_t *layout, bool paced) {
  uint64_t digest = topo_layout_digest(layout);
  return paced ? base_digest_fold(digest, 1) : digest;
}
