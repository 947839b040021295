/* Permits reads by peers once per process, and probes reads of peers once per communicator. */
#include "comm/access.h"

#include <pthread.h>
#include <stdio.h>

#include "comm/rendezvous/rendezvous.h"
#include "transport/shm/get.h"

static pthread_once_t permit_once = PTHREAD_ONCE_INIT;

static void permit(void) {
  shm_get_permit(rendezvous_launcher_pid());
}

/* Once, so that what the program itself permits later stays. */
void comm_access_permit(void) {
  pthread_once(&permit_once, permit);
}

void comm_access_find(struct coll_comm *comm, const comm_access_t *access) {
  char why[TRANSPORT_WHY_BYTES] = "COLL_GET is off";
  transport_t *local = comm->local;
  comm->access = *access;
  if (comm->size == 1) return;
  comm->world.gets = access->get && local->ops->probe_get(local, why);
  if (!access->reports) return;
  if (comm->world.gets) {
    fprintf(stderr, "libcoll: rank %d of %d reads its peers' buffers directly\n", comm->rank,
            comm->size);
  } else {
    fprintf(stderr, "libcoll: rank %d of %d copies buffers through shared memory: %s\n", comm->rank,
            comm->size, why);
  }
}
