/*
 * What a peer passed before it died or left still arrives. So, as in watch.c, a peer counts as lost
 * when it was found lost twice, with a poll in between.
 */
#include "offload/descriptors.h"

#include <unistd.h>

#include "base/clock.h"
#include "comm/lock.h"

#define LIMIT_NS UINT64_C(30000000000) /* without a limit of the communicator */
#define SLEEP_NS 10000000u
#define RETRY_NS 1000000u /* between attempts to pass to a peer without room */

typedef struct wait {
  struct coll_comm *comm;
  uint64_t begin_ns, limit_ns;
  int suspect; /* found lost by the latest check; -1: none */
} wait_t;

static wait_t begin(struct coll_comm *comm) {
  uint64_t limit_ns = comm->watched.limits.timeout_ns;
  return (wait_t){.comm = comm,
                  .begin_ns = base_clock_now_ns(),
                  .limit_ns = limit_ns > 0 ? limit_ns : LIMIT_NS,
                  .suspect = -1};
}

static coll_status_t fail_gone(const struct coll_comm *comm, int peer,
                               transport_peer_state_t state) {
  char loss[COMM_LOSS_BYTES];
  if (state == TRANSPORT_PEER_LEFT) {
    return base_fail(COLL_ERROR_RANK_LOST,
                     "rank %d: rank %d (pid %d) destroyed the communicator while file descriptors "
                     "were passed; the communicator has failed",
                     comm->rank, peer, (int)comm->peers[peer].pid);
  }
  comm_describe_loss(comm, peer, loss);
  return base_fail(COLL_ERROR_RANK_LOST,
                   "rank %d: %s while file descriptors were passed; the communicator has failed",
                   comm->rank, loss);
}

static coll_status_t fail_late(const wait_t *wait, int peer, const char *what) {
  const struct coll_comm *comm = wait->comm;
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: rank %d (pid %d) %s within %llu ms (is it stopped?); the communicator "
                   "has failed",
                   comm->rank, peer, (int)comm->peers[peer].pid, what,
                   (unsigned long long)(wait->limit_ns / 1000000u));
}

/* Called after each poll that brought nothing from the peer, or did not reach it. *gone: it may be
 * lost. */
static coll_status_t check(wait_t *wait, int peer, const char *what, bool *gone) {
  struct coll_comm *comm = wait->comm;
  transport_t *local = comm->local;
  COLL_TRY(comm_poll_failure(comm));
  transport_peer_state_t state = local->ops->peer_state(local, peer);
  *gone = state != TRANSPORT_PEER_HERE;
  if (*gone && wait->suspect == peer) {
    return comm_fail(comm, fail_gone(comm, peer, state), peer);
  }
  if (*gone) wait->suspect = peer;
  if (base_clock_now_ns() - wait->begin_ns < wait->limit_ns) return COLL_OK;
  return comm_fail(comm, fail_late(wait, peer, what), peer);
}

bool offload_descriptors_reach(const struct coll_comm *comm, int peer) {
  return peer != comm->rank && comm->world.views[peer].buffers[PLAN_SCRATCH] != NULL;
}

/* ---- passing ---------------------------------------------------------------------------------*/

static coll_status_t pass_to(struct coll_comm *comm, int peer, uint64_t tag, int descriptor) {
  transport_t *local = comm->local;
  wait_t wait = begin(comm);
  for (;;) {
    bool done, gone;
    coll_status_t status = local->ops->pass_descriptor(local, peer, tag, descriptor, &done);
    if (status != COLL_OK) return comm_fail(comm, status, comm->rank);
    if (done) return COLL_OK;
    COLL_TRY(check(&wait, peer, "could not be passed a file descriptor", &gone));
    base_clock_sleep_ns(RETRY_NS);
  }
}

coll_status_t offload_descriptors_pass(struct coll_comm *comm, const bool to[], uint64_t tag,
                                       int descriptor) {
  for (int peer = 0; peer < comm->size; peer++) {
    if (to[peer]) COLL_TRY(pass_to(comm, peer, tag, descriptor));
  }
  return COLL_OK;
}

/* ---- receiving -------------------------------------------------------------------------------*/

/* *missing: a peer from which nothing has arrived; -1: none. *some: something has arrived. */
static coll_status_t take_all(struct coll_comm *comm, const bool from[], uint64_t tag,
                              int descriptors[], int *missing, bool *some) {
  transport_t *local = comm->local;
  *missing = -1;
  *some = false;
  for (int peer = 0; peer < comm->size; peer++) {
    bool done;
    int taken;
    if (!from[peer] || descriptors[peer] >= 0) continue;
    coll_status_t status = local->ops->take_descriptor(local, peer, tag, &taken, &done);
    if (status != COLL_OK) return comm_fail(comm, status, comm->rank);
    if (done) descriptors[peer] = taken;
    *some = *some || done;
    if (!done && *missing < 0) *missing = peer;
  }
  return COLL_OK;
}

/* Checks the peers that are waited for. */
static coll_status_t check_missing(wait_t *wait, const bool from[], const int descriptors[]) {
  bool gone = false;
  for (int peer = 0; peer < wait->comm->size && !gone; peer++) {
    if (!from[peer] || descriptors[peer] >= 0) continue;
    COLL_TRY(check(wait, peer, "passed no file descriptor", &gone));
  }
  if (!gone) wait->suspect = -1;
  return COLL_OK;
}

static coll_status_t receive(struct coll_comm *comm, const bool from[], uint64_t tag,
                             int descriptors[]) {
  transport_t *local = comm->local;
  wait_t wait = begin(comm);
  int missing;
  bool some;
  COLL_TRY(take_all(comm, from, tag, descriptors, &missing, &some));
  while (missing >= 0) {
    local->ops->arm(local);
    coll_status_t status = take_all(comm, from, tag, descriptors, &missing, &some);
    if (status == COLL_OK && missing >= 0 && !some) local->ops->sleep(local, SLEEP_NS);
    local->ops->disarm(local);
    COLL_TRY(status);
    if (missing >= 0 && !some) COLL_TRY(check_missing(&wait, from, descriptors));
  }
  return COLL_OK;
}

static void close_all(int descriptors[], int size) {
  for (int peer = 0; peer < size; peer++) {
    if (descriptors[peer] >= 0) close(descriptors[peer]);
    descriptors[peer] = -1;
  }
}

coll_status_t offload_descriptors_receive(struct coll_comm *comm, const bool from[], uint64_t tag,
                                          int descriptors[]) {
  for (int peer = 0; peer < comm->size; peer++) descriptors[peer] = -1;
  coll_status_t status = receive(comm, from, tag, descriptors);
  if (status != COLL_OK) close_all(descriptors, comm->size);
  return status;
}

coll_status_t offload_descriptors_exchange(struct coll_comm *comm, const bool to[],
                                           const bool from[], uint64_t tag, int descriptor,
                                           int descriptors[]) {
  for (int peer = 0; peer < comm->size; peer++) descriptors[peer] = -1;
  comm_lock_take(comm, comm_lock_ticket(comm));
  coll_status_t status = offload_descriptors_pass(comm, to, tag, descriptor);
  if (status == COLL_OK) status = offload_descriptors_receive(comm, from, tag, descriptors);
  comm_lock_release(comm);
  return status;
}
