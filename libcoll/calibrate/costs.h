/*
 * The costs of a plan's parts on this machine, which the tuner uses: measured, and cached on disk
 * (topo/cost_cache.h). Where the machine is a virtual one, its host may move a CPU to another core,
 * and what a line costs from one cache to another changes by a factor of four. So the time of a hop
 * is measured again by each process, unless the costs are of the last minute, and all of them are
 * if it is not what it was.
 */
#ifndef CALIBRATE_COSTS_H
#define CALIBRATE_COSTS_H

#include <stdbool.h>

#include "base/status.h"
#include "tune/machine.h"

/* The measured costs. Measures them (some 100 ms) if the cache has none that still hold; where that
 * cannot be done, those of the cache, or the built-in ones. COLL_ERROR_INVALID: the value of
 * COLL_ISA is wrong. */
coll_status_t calibrate_costs_find(tune_machine_t *costs);

/* Measures on two cores; cpus: one of each. False: there are not two, or a resource is missing.
 * (measure.c) */
bool calibrate_costs_measure(tune_machine_t *costs, int cpus[2]);

#endif
