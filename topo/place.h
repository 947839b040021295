/* Places the ranks of a job on the hosts of a graph, and derives their layout. */
#ifndef TOPO_PLACE_H
#define TOPO_PLACE_H

#include "topo/graph.h"
#include "topo/layout.h"
#include "topo/map.h"

/* Arrays have one entry per rank and hold nodes of the graph. */
typedef struct topo_placement {
  topo_layout_t *layout;
  int32_t *host_of;
  int32_t *gpu_of;     /* TOPO_NONE where the host has none; shared if ranks outnumber GPUs */
  int32_t *core_of;    /* first core, TOPO_NONE if none is assigned (topo_share_of) */
  int32_t *core_count; /* cores in the order of nodes, of those near the GPU if there is one */
} topo_placement_t;

/* Fills the hosts evenly with the ranks in the order of the map; the first hosts take the
 * remainder. Fewer ranks than hosts: one each on the first. The layout has a level of hosts, and
 * one of packages and of NUMA nodes, where they divide the ranks and none where every rank would be
 * alone in its package or NUMA node; mapping domains are the hosts. The grid is taken over if every
 * host has one rank. COLL_ERROR_INVALID if ranks < 1. The caller calls topo_placement_free. */
coll_status_t topo_place_mapped(const topo_graph_t *graph, int32_t ranks, topo_map_t map,
                                topo_placement_t *placement);

/* The same, in contiguous blocks of ranks. */
coll_status_t topo_place(const topo_graph_t *graph, int32_t ranks, topo_placement_t *placement);

/* The node from which data of the rank leaves: its GPU, else its core, else the nearest container
 * of that which has links; its host if nothing has. */
int32_t topo_placement_node(const topo_placement_t *placement, const topo_graph_t *graph,
                            int32_t rank);

/* Gives the layout the links of the graph, and the rings over them, if all ranks are connected by
 * them and the costs of memory do not say more: if the ranks have GPUs or several hosts. Takes the
 * graph over, also on failure. */
coll_status_t topo_placement_add_fabric(topo_placement_t *placement, topo_graph_t *graph);

void topo_placement_free(topo_placement_t *placement);

#endif
