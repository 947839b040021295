/* A large graph reduced to what can be drawn: its first host, and one switch for each tier. */
#ifndef DRAW_FOLD_H
#define DRAW_FOLD_H

#include "topo/graph.h"

/* Makes a graph of the first host, with one node for all NVSwitches between hosts and one for each
 * tier of network switches; parallel links between them are added up. Owned by the caller:
 * topo_graph_free. */
coll_status_t fold_graph(const topo_graph_t *graph, topo_graph_t **folded);

#endif
