/* All ranks on a machine see the same numbers of hardware threads. */
#include "topo/cpus.h"

#include <sched.h>
#include <stdlib.h>

#include "base/lines.h"

bool topo_cpus_are_known(void) {
  unsigned long set[1024]; /* larger than any kernel's, so that it is never too small */
  return sched_getaffinity(0, sizeof set, (cpu_set_t *)set) == 0;
}

topo_cpus_t topo_cpus_own(void) {
  topo_cpus_t cpus = {0};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < TOPO_CPUS_MAX && cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) topo_cpus_set(&cpus, cpu);
  }
  return cpus;
}

/* The kernel's order is ascending. */
static bool parse_list(const char *at, topo_cpus_t *cpus) {
  while (*at != '\n' && *at != '\0') {
    char *end;
    unsigned long first = strtoul(at, &end, 10), last = first;
    if (end == at) return false;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    for (unsigned long cpu = first; cpu <= last && cpu < TOPO_CPUS_MAX; cpu++) {
      topo_cpus_set(cpus, (int)cpu);
    }
    if (*end != ',' && *end != '\n' && *end != '\0') return false;
    at = *end == ',' ? end + 1 : end;
  }
  return true;
}

bool topo_cpus_read(const char *path, topo_cpus_t *cpus) {
  char *text = base_lines_first(path);
  *cpus = (topo_cpus_t){0};
  bool is_list = text != NULL && parse_list(text, cpus);
  free(text);
  if (!is_list) *cpus = (topo_cpus_t){0};
  return is_list;
}

void topo_cpus_add(topo_cpus_t *cpus, const topo_cpus_t *more) {
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) cpus->words[i] |= more->words[i];
}

int topo_cpus_count(const topo_cpus_t *cpus) {
  int count = 0;
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) count += __builtin_popcountll(cpus->words[i]);
  return count;
}

bool topo_cpus_have(const topo_cpus_t *cpus, int cpu) {
  return (cpus->words[cpu / 64] >> cpu % 64 & 1) != 0;
}

void topo_cpus_set(topo_cpus_t *cpus, int cpu) {
  cpus->words[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

bool topo_cpus_contain(const topo_cpus_t *all, const topo_cpus_t *some) {
  for (int i = 0; i < TOPO_CPUS_MAX / 64; i++) {
    if ((some->words[i] & ~all->words[i]) != 0) return false;
  }
  return true;
}

int topo_cpus_first(const topo_cpus_t *cpus) {
  int cpu = 0;
  while (cpu < TOPO_CPUS_MAX && !topo_cpus_have(cpus, cpu)) cpu++;
  return cpu;
}
