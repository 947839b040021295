/* Which step of a plan has to wait for which other one. */
#ifndef SIM_MATCH_H
#define SIM_MATCH_H

#include "sim/sim.h"

/* Fills links[] of a sim that is open but for it. */
coll_status_t sim_match(sim_t *sim);

#endif
