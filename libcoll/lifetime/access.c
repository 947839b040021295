/* Permits reads by peers once per process, and probes reads of peers once per communicator. */
#include "lifetime/access.h"

#include <pthread.h>
#include <stdio.h>

#include "bootstrap/launch/launch.h"
#include "transport/get.h"

static pthread_once_t permit_once = PTHREAD_ONCE_INIT;

static void permit(void) {
  transport_get_permit(launch_pid());
}

/* Once, so that what the program itself permits later stays. */
void lifetime_access_permit(void) {
  pthread_once(&permit_once, permit);
}

/* Whether a rank that sends and receives `bytes` at the same time spends less time on a get than on
 * messages, apart from what both load and store. */
static bool favors_get(const tune_machine_t *costs, size_t bytes) {
  uint64_t messages = tune_machine_move_ps(costs, TUNE_LOAD, bytes) +
                      tune_machine_move_ps(costs, TUNE_PUSH, bytes) +
                      tune_machine_move_ps(costs, TUNE_PULL, bytes);
  return tune_machine_move_ps(costs, TUNE_LOAD_FAR, bytes) +
             tune_machine_move_ps(costs, TUNE_GET, bytes) <
         messages;
}

/* The smallest measured size from which on all favor get. */
static size_t large_get_min(const tune_machine_t *costs) {
  int i = TUNE_SIZES;
  while (i > 0 && favors_get(costs, tune_sizes[i - 1])) i--;
  return i < TUNE_SIZES ? tune_sizes[i] : SIZE_MAX;
}

void lifetime_access_find(struct coll_comm *comm, const comm_access_t *access) {
  char why[TRANSPORT_WHY_BYTES];
  transport_t *local = comm->local;
  snprintf(why, sizeof why, "%s",
           access->is_local ? "the ranks are of one process" : "COLL_GET is off");
  comm->access = *access;
  if (comm->size == 1) return;
  comm->world.large_get_min = large_get_min(&comm->plans.costs);
  comm->world.gets = access->get && local->ops->probe_get(local, why);
  if (!access->reports) return;
  if (local->delays && !comm->paced) {
    fprintf(stderr, "libcoll: rank %d of %d sends to its peers over %s\n", comm->rank, comm->size,
            local->ops->name);
  } else if (comm->world.gets) {
    fprintf(stderr, "libcoll: rank %d of %d reads its peers' buffers directly\n", comm->rank,
            comm->size);
  } else {
    fprintf(stderr, "libcoll: rank %d of %d copies buffers through shared memory: %s\n", comm->rank,
            comm->size, why);
  }
}
