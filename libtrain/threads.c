/* The cores that are online, and those that a launcher has bound this process to. */
#include "libtrain/threads.h"

#include <sched.h>
#include <unistd.h>

int train_threads_share(int ranks_here) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int share = online > ranks_here ? (int)(online / ranks_here) : 1;
  cpu_set_t allowed; /* a launcher may have bound this rank to its cores already */
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < share) {
    share = CPU_COUNT(&allowed);
  }
  return share;
}
