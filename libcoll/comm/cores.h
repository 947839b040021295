/*
 * The cores that the ranks of a communicator may run on, of all machines.
 */
#ifndef COMM_CORES_H
#define COMM_CORES_H

#include "comm/create.h"

/* Their number. *own_cores: no machine has more ranks than cores. */
int comm_cores_of(int size, const comm_record_t records[], bool *own_cores);

/* Whether the two have cores, and none in common. */
bool comm_cores_are_disjoint(const topo_cpus_t *left, const topo_cpus_t *right);

#endif
