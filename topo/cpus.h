/*
 * Sets of hardware threads, as plain data that ranks can tell each other: which of them a rank may
 * run on, and how many that makes for all.
 */
#ifndef TOPO_CPUS_H
#define TOPO_CPUS_H

#include <stdint.h>

#define TOPO_CPUS_MAX 1024

typedef struct topo_cpus {
  uint64_t words[TOPO_CPUS_MAX / 64];
} topo_cpus_t;

/* Those that the calling thread may run on; none where the kernel does not say. */
topo_cpus_t topo_cpus_own(void);

void topo_cpus_add(topo_cpus_t *cpus, const topo_cpus_t *more);
int topo_cpus_count(const topo_cpus_t *cpus);

#endif
