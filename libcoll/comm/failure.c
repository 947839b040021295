/*
 * How a communicator fails. The thread that detects the failure stores its message and sends
 * status, failed rank and message to every rank through the transport. Later calls on any rank
 * return the failure.
 */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

const char *comm_forced_name(flight_call_t call) {
  const flight_words_t words = flight_call_words(call);
  if (words.algo == 0 || words.verb >= COLL_COLLECTIVE_COUNT) return NULL;
  if (words.algo == FLIGHT_ALGO_LOADED) return "a loaded plan";
  const algo_t *algo = algo_at((coll_collective_t)words.verb, words.algo - 1);
  return algo != NULL ? algo->name : NULL;
}

coll_status_t comm_fail_mismatch(int rank, uint64_t number, flight_call_t call, int peer,
                                 uint64_t peer_number, flight_call_t peer_call) {
  const flight_seen_t one = {rank, number, call, comm_forced_name(call)};
  const flight_seen_t other = {peer, peer_number, peer_call, comm_forced_name(peer_call)};
  return flight_mismatch(&one, &other);
}

/* Names the first calls that differ. The message that revealed the mismatch may belong to a later
 * call; the recorders show the first one. Leaves the last error as it is if they do not. */
static void name_first_difference(const struct coll_comm *comm) {
  for (int peer = 0; peer < comm->size; peer++) {
    transport_t *local = comm->local;
    const flight_recorder_t *other = local->ops->recorder(local, peer);
    flight_past_t own, found;
    if (peer == comm->rank || other == NULL) continue;
    if (!flight_first_difference(local->flight, other, comm->sequence, &own, &found)) continue;
    comm_fail_mismatch(comm->rank, own.number, own.call, peer, found.number, found.call);
    return;
  }
}

coll_status_t comm_fail(struct coll_comm *comm, coll_status_t status, int failed_rank) {
  if (atomic_load_explicit(&comm->errors.failure, memory_order_relaxed) != COLL_OK) return status;
  transport_reason_t reason;
  bool aborted = comm->local->ops->aborted(comm->local, &reason);
  bool is_common = status == COLL_ERROR_MISMATCH || status == COLL_ERROR_TIMEOUT;
  if (aborted && is_common && reason.status == status) {
    base_fail(status, "%s", reason.text); /* all ranks return the same text */
  } else if (status == COLL_ERROR_MISMATCH) {
    name_first_difference(comm);
  }
  reason = (transport_reason_t){.failed_rank = failed_rank, .status = status};
  snprintf(reason.text, sizeof reason.text, "%s", base_last_error());
  comm->local->ops->abort(comm->local, &reason);
  /* another rank may have aborted first */
  if (is_common && comm->local->ops->aborted(comm->local, &reason) && reason.status == status) {
    base_fail(status, "%s", reason.text);
  }
  snprintf(comm->errors.failure_text, sizeof comm->errors.failure_text, "%s", base_last_error());
  atomic_store_explicit(&comm->errors.failure_returned, true, memory_order_relaxed);
  /* release: a thread that sees the status sees the text */
  atomic_store_explicit(&comm->errors.failure, (int)status, memory_order_release);
  return status;
}

static bool begins_with_rank(const char *text, int rank) {
  char name[24];
  int length = snprintf(name, sizeof name, "rank %d ", rank);
  return strncmp(text, name, (size_t)length) == 0;
}

/* The reporter's text without the leading "rank N: ", which names the reporter. */
static const char *without_reporter(const transport_reason_t *reason) {
  const char *text = strstr(reason->text, ": ");
  return text != NULL ? text + 2 : reason->text;
}

void comm_describe_loss(const struct coll_comm *comm, int peer, char text[COMM_LOSS_BYTES]) {
  char why[TRANSPORT_WHY_BYTES];
  const bootstrap_process_t *process = &comm->peers[peer].process;
  int pid = (int)comm->peers[peer].pid;
  comm->local->ops->why_lost(comm->local, peer, why);
  if (why[0] != '\0') {
    snprintf(text, COMM_LOSS_BYTES, "rank %d (pid %d) is lost, because its host %s", peer, pid,
             why);
  } else if (bootstrap_process_settle(process, pid) == BOOTSTRAP_PROCESS_LIVES) {
    snprintf(text, COMM_LOSS_BYTES,
             "rank %d (pid %d) lives, but its connection has ended (it has called exec or closed "
             "all its descriptors, or the connection was reset)",
             peer, pid);
  } else {
    snprintf(text, COMM_LOSS_BYTES, "rank %d (pid %d) died", peer, pid);
  }
}

int comm_lost_rank(const struct coll_comm *comm) {
  for (int peer = 0; peer < comm->size; peer++) {
    transport_t *route = comm->world.routes[peer];
    if (peer != comm->rank && route->ops->peer_state(route, peer) == TRANSPORT_PEER_LOST) {
      return peer;
    }
  }
  return -1;
}

/* Fails with the reason that another rank gave. For a mismatch or timeout all ranks return its text
 * unchanged. */
static coll_status_t fail_with_reason(const struct coll_comm *comm,
                                      const transport_reason_t *reason) {
  transport_t *local = comm->local;
  int failed = reason->failed_rank, pid = (int)comm->peers[failed].pid;
  if (reason->status == COLL_ERROR_MISMATCH || reason->status == COLL_ERROR_TIMEOUT) {
    return base_fail(reason->status, "%s", reason->text);
  }
  if (failed == comm->rank) {
    return base_fail(COLL_ERROR_RANK_LOST,
                     "rank %d: this rank aborted the communicator; destroy it", comm->rank);
  }
  if (local->ops->peer_state(local, failed) == TRANSPORT_PEER_LOST) {
    char loss[COMM_LOSS_BYTES];
    comm_describe_loss(comm, failed, loss);
    return base_fail(COLL_ERROR_RANK_LOST, "rank %d: %s; the communicator has failed", comm->rank,
                     loss);
  }
  if (reason->status == COLL_ERROR_RANK_LOST &&
      begins_with_rank(without_reporter(reason), failed)) {
    return base_fail(COLL_ERROR_RANK_LOST, "rank %d: %s", comm->rank, without_reporter(reason));
  }
  return base_fail(COLL_ERROR_RANK_LOST,
                   "rank %d: rank %d (pid %d) aborted or failed; the communicator has failed: %s",
                   comm->rank, failed, pid, reason->text);
}

coll_status_t comm_fail_again(struct coll_comm *comm) {
  transport_reason_t reason;
  atomic_store_explicit(&comm->errors.failure_returned, true, memory_order_relaxed);
  /* acquire: the text is visible */
  int failure = atomic_load_explicit(&comm->errors.failure, memory_order_acquire);
  if (failure != COLL_OK) return base_fail((coll_status_t)failure, "%s", comm->errors.failure_text);
  if (!comm->local->ops->aborted(comm->local, &reason)) return COLL_OK;
  return fail_with_reason(comm, &reason);
}

coll_status_t comm_poll_failure(struct coll_comm *comm) {
  transport_reason_t reason;
  (void)comm->local->ops->aborted(comm->local, &reason);
  return comm_failure(comm);
}

int comm_failed_rank(struct coll_comm *comm) {
  transport_reason_t reason;
  if (!comm->local->ops->aborted(comm->local, &reason)) return -1;
  return reason.status == COLL_ERROR_MISMATCH ? -1 : reason.failed_rank;
}

void comm_abort(struct coll_comm *comm, int failed_rank, const char *why) {
  transport_reason_t reason = {.failed_rank = failed_rank, .status = COLL_ERROR_RANK_LOST};
  snprintf(reason.text, sizeof reason.text, "%s", why);
  comm->local->ops->abort(comm->local, &reason);
}
