/*
 * The connection of ranks whose communicator has just been created. All ranks have connected on the
 * host, and all of them connect their GPUs next, so none waits long for another.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "comm/lock.h"
#include "offload/state.h"

/* The watch thread, which knows connected ranks, reads the limits with the lock held. */
static void set_limits(struct coll_comm *comm, const comm_limits_t *limits) {
  comm_lock_take(comm, comm_lock_ticket(comm));
  comm->watched.limits = *limits;
  comm_lock_release(comm);
}

/* A refusal, which all ranks get, leaves a communicator that works on the host. */
static bool are_usable(struct coll_comm *const comms[], size_t count) {
  size_t i = 0;
  while (i < count && comm_is_usable(comms[i])) i++;
  return i == count;
}

static void abort_all(struct coll_comm *const comms[], size_t count) {
  for (size_t i = 0; i < count; i++) comm_abort(comms[i], comms[i]->rank, base_last_error());
}

coll_status_t offload_connect_created(struct coll_comm *const comms[], const int devices[],
                                      size_t count, uint64_t timeout_ns) {
  offload_member_t *members;
  const comm_limits_t limits = comms[0]->watched.limits; /* all have the same */
  const comm_limits_t during = {.hang_ns = limits.hang_ns, .timeout_ns = timeout_ns};
  coll_status_t status = base_alloc(count, sizeof *members, "ranks on GPUs", (void **)&members);
  if (status != COLL_OK) {
    abort_all(comms, count); /* the other ranks would wait for this one */
    return status;
  }
  for (size_t i = 0; i < count; i++) {
    members[i] = (offload_member_t){.comm = comms[i], .device = devices[i]};
    set_limits(comms[i], &during);
  }
  status = offload_connect(members, count);
  for (size_t i = 0; i < count; i++) set_limits(comms[i], &limits);
  free(members);
  return are_usable(comms, count) ? COLL_OK : status;
}

int offload_device(const struct coll_comm *comm) {
  /* acquire: what the thread that made it has written */
  const offload_t *gpu = atomic_load_explicit(&comm->gpu, memory_order_acquire);
  return gpu != NULL ? gpu->device : CUDA_NO_DEVICE;
}
