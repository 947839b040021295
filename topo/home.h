/*
 * The part of its host that a rank is in: the package and the NUMA node that contain all cpus to
 * which the rank is bound. A rank that may run on several packages or NUMA nodes has none.
 */
#ifndef TOPO_HOME_H
#define TOPO_HOME_H

#include <stdint.h>

#include "topo/cpus.h"
#include "topo/layout.h"

#define TOPO_HOME_NONE (-1)

typedef struct topo_home {
  int16_t package, numa; /* as the kernel numbers them; TOPO_HOME_NONE: none, or not reported */
} topo_home_t;

/* Reads sysfs at `root`: as many small files as there are NUMA nodes, and two more. */
topo_home_t topo_home_of(const char *root, const topo_cpus_t *cpus);

/* *layout: of ranks of one host with these homes. It has a level of packages and one of NUMA nodes,
 * each where it divides the ranks and every group has more than one rank. NULL, if there is no such
 * level, or a rank has no home. Owned by the caller. COLL_ERROR_MEMORY. */
coll_status_t topo_home_layout(const topo_home_t homes[], int32_t size, topo_layout_t **layout);

#endif
