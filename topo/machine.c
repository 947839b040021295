/* How the cores of a machine are divided. machine_hwloc.c finds them, machine_sysfs.c in builds
 * without hwloc. */
#include "topo/machine.h"

#include <assert.h>

topo_share_t topo_share_of(int cores, int local_rank, int local_size) {
  assert(cores > 0 && local_rank >= 0 && local_rank < local_size);
  if (local_size > cores) {
    bool even = local_size % cores == 0;
    return (topo_share_t){even ? local_rank / (local_size / cores) : 0, even};
  }
  int first = (int)((long long)cores * local_rank / local_size);
  int end = (int)((long long)cores * (local_rank + 1) / local_size);
  return (topo_share_t){first, end - first};
}
