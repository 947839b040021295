/* Counts cores once, whichever ranks may run on them. */
#include "lifetime/cores.h"

/* Whether the two ranks run on cores of one machine, if not on one host. */
static bool share_cores(const lifetime_record_t *a, const lifetime_record_t *b) {
  return transport_same_host(&a->name, &b->name) || (a->kernel != 0 && a->kernel == b->kernel);
}

/* The number of cores of a rank's machine that its ranks may run on: they may be bound to different
 * cores. *ranks: their number. */
static int machine_cores(int size, const lifetime_record_t records[], int rank, int *ranks) {
  topo_cpus_t cpus = {0};
  *ranks = 0;
  for (int peer = 0; peer < size; peer++) {
    if (!share_cores(&records[peer], &records[rank])) continue;
    topo_cpus_add(&cpus, &records[peer].cpus);
    ++*ranks;
  }
  int count = topo_cpus_count(&cpus);
  return count > 0 ? count : 1;
}

int lifetime_cores_of(int size, const lifetime_record_t records[], bool *own_cores) {
  int cores = 0;
  *own_cores = true;
  for (int rank = 0; rank < size; rank++) {
    int ranks, first = 0;
    while (!share_cores(&records[first], &records[rank])) first++;
    if (first != rank) continue;
    int here = machine_cores(size, records, rank, &ranks);
    *own_cores = *own_cores && ranks <= here;
    cores += here;
  }
  return cores;
}

bool lifetime_cores_are_disjoint(const topo_cpus_t *left, const topo_cpus_t *right) {
  topo_cpus_t both = *left;
  topo_cpus_add(&both, right);
  return topo_cpus_count(left) > 0 && topo_cpus_count(right) > 0 &&
         topo_cpus_count(&both) == topo_cpus_count(left) + topo_cpus_count(right);
}
