/*
 * Sets of hardware threads, as plain data that ranks can exchange: which hardware threads a rank
 * may run on, and how many all ranks together have.
 */
#ifndef TOPO_CPUS_H
#define TOPO_CPUS_H

#include <stdint.h>

#define TOPO_CPUS_MAX 1024

typedef struct topo_cpus {
  uint64_t words[TOPO_CPUS_MAX / 64];
} topo_cpus_t;

/* Hardware threads that the calling thread may run on; empty if the kernel does not report them. */
topo_cpus_t topo_cpus_own(void);

void topo_cpus_add(topo_cpus_t *cpus, const topo_cpus_t *more);
int topo_cpus_count(const topo_cpus_t *cpus);

#endif
