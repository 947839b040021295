/* Copies the kernel's affinity mask: all ranks on a machine see the same CPU numbers. */
#include "topo/cpus.h"

#include <sched.h>

topo_cpus_t topo_cpus_own(void) {
  topo_cpus_t cpus = {0};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < TOPO_CPUS_MAX && cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) cpus.words[cpu / 64] |= (uint64_t)1 << cpu % 64;
  }
  return cpus;
}

void topo_cpus_add(topo_cpus_t *cpus, const topo_cpus_t *more) {
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) cpus->words[i] |= more->words[i];
}

int topo_cpus_count(const topo_cpus_t *cpus) {
  int count = 0;
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) count += __builtin_popcountll(cpus->words[i]);
  return count;
}
