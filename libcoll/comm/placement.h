/*
 * Where the ranks of a communicator are: from the file that COLL_TOPO_FILE names (colltopo makes
 * such files), or from the parent of a split. Without a file nothing is known, and all ranks are
 * taken to be on one host.
 */
#ifndef COMM_PLACEMENT_H
#define COMM_PLACEMENT_H

#include "topo/layout.h"
#include "topo/map.h"

struct coll_comm;

/* *layout: of `size` ranks on the hosts of the file, in the order of the map; NULL if file_name is
 * "". Owned by the caller. COLL_ERROR_INVALID names the file and line. */
coll_status_t comm_placement_read(const char *file_name, topo_map_t map, int size,
                                  topo_layout_t **layout);

/* Gives the communicator the layout and takes it over. Before its first call. paced: its messages
 * take as long as the links of the layout's fabric do. On failure the communicator can only be
 * destroyed. COLL_ERROR_INVALID: the layout has no links to pace. */
coll_status_t comm_placement_set(struct coll_comm *comm, topo_layout_t *layout, bool paced);

/* By which ranks compare layout and pacing. */
uint64_t comm_placement_digest(const topo_layout_t *layout, bool paced);

#endif
