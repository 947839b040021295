/*
 * Sets of hardware threads, as plain data that ranks can exchange: which hardware threads a rank
 * may run on, and how many all ranks together have.
 */
#ifndef TOPO_CPUS_H
#define TOPO_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#define TOPO_CPUS_MAX 1024

typedef struct topo_cpus {
  uint64_t words[TOPO_CPUS_MAX / 64];
} topo_cpus_t;

/* Hardware threads that the calling thread may run on; empty if the kernel does not report them. */
topo_cpus_t topo_cpus_own(void);

/* Whether the kernel reports them. Where sched_getaffinity(2) is forbidden, as in some containers,
 * hwloc asks for ever, with larger and larger sets: it may only be used if this is true. errno says
 * why it is not. */
bool topo_cpus_are_known(void);

/* The list in a file of the kernel, such as "0-3,8,10-11". False, and empty: the file is missing or
 * has something else. */
bool topo_cpus_read(const char *path, topo_cpus_t *cpus);

void topo_cpus_add(topo_cpus_t *cpus, const topo_cpus_t *more);
int topo_cpus_count(const topo_cpus_t *cpus);

bool topo_cpus_have(const topo_cpus_t *cpus, int cpu);
void topo_cpus_set(topo_cpus_t *cpus, int cpu); /* adds one */
bool topo_cpus_contain(const topo_cpus_t *all, const topo_cpus_t *some);
int topo_cpus_first(const topo_cpus_t *cpus); /* TOPO_CPUS_MAX: there is none */

#endif
