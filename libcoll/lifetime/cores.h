/*
 * The cores that the ranks of a communicator may run on, of all machines.
 */
#ifndef LIFETIME_CORES_H
#define LIFETIME_CORES_H

#include "lifetime/create.h"

/* Their number. *own_cores: no machine has more ranks than cores. */
int lifetime_cores_of(int size, const lifetime_record_t records[], bool *own_cores);

/* Whether the two have cores, and none in common. */
bool lifetime_cores_are_disjoint(const topo_cpus_t *left, const topo_cpus_t *right);

#endif
