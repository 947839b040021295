/* Counts the online cores and those in this process's CPU affinity mask. */
#include "libtrain/common/threads.h"

#include <sched.h>
#include <unistd.h>

int train_threads_default(int ranks_here) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int threads = online > ranks_here ? (int)(online / ranks_here) : 1;
  cpu_set_t allowed; /* a launcher may have bound this rank to its own cores */
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < threads) {
    threads = CPU_COUNT(&allowed);
  }
  return threads;
}
