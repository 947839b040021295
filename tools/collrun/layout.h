/* Prints where COLL_TOPO_FILE places the ranks of a job. */
#ifndef COLLRUN_LAYOUT_H
#define COLLRUN_LAYOUT_H

#include "base/status.h"
#include "topo/map.h"

/* COLL_ERROR_INVALID if COLL_TOPO_FILE is not set, or the file is wrong. */
coll_status_t collrun_layout_print(int ranks, topo_map_t map);

#endif
