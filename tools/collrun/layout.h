/* Prints where the ranks of a job are: on the hosts of COLL_TOPO_FILE, or on this machine. */
#ifndef COLLRUN_LAYOUT_H
#define COLLRUN_LAYOUT_H

#include "base/status.h"
#include "topo/machine.h"
#include "topo/map.h"

/* machine: where the ranks are bound to cores, NULL if they are not. Binds the calling thread to
 * the cores of each rank in turn, to see where they are. COLL_ERROR_INVALID: the file is wrong.
 * COLL_ERROR_SYSTEM: this machine cannot be discovered. */
coll_status_t collrun_layout_print(int ranks, topo_map_t map, const topo_machine_t *machine);

#endif
