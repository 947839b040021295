/* The costs of a plan's parts on this machine, which the tuner uses. Measured once per machine and
 * cached on disk (topo/cost_cache.h). */
#ifndef CALIBRATE_COSTS_H
#define CALIBRATE_COSTS_H

#include <stdbool.h>

#include "base/status.h"
#include "tune/machine.h"

/* The measured costs, or the built-in ones where they cannot be measured. Measures them (some
 * 100 ms) if the cache has none. COLL_ERROR_INVALID: the value of COLL_ISA is wrong. */
coll_status_t calibrate_costs_find(tune_machine_t *costs);

/* Measures on two cores. False: there are not two, or a resource is missing. (measure.c) */
bool calibrate_costs_measure(tune_machine_t *costs);

#endif
