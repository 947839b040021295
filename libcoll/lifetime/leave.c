/*
 * Checks that a rank makes when it destroys a communicator: for messages that it did not receive,
 * and for its own messages that a peer did not receive before that peer left. It waits for no rank.
 */
#include "lifetime/leave.h"

#include "offload/gpu.h"

static bool is_pair(flight_call_t call) {
  return flight_call_words(call).verb == COLL_SENDRECV;
}

/* An unreceived message of a send. The text names the call as its sender made it. */
static coll_status_t fail_unreceived(const struct coll_comm *comm, int from, int to,
                                     flight_call_t call) {
  char text[FLIGHT_TEXT_BYTES];
  flight_words_t words = flight_call_words(call);
  words.verb = FLIGHT_SEND;
  words.root = to;
  flight_call_describe(flight_call_make(&words), NULL, text, sizeof text);
  return base_fail(COLL_ERROR_MISMATCH,
                   "call %u to rank %d: rank %d is in %s, but rank %d is in destroy() and has not "
                   "received it (pid %d)",
                   (unsigned)flight_call_number(call), to, from, text, to,
                   (int)comm->peers[to].pid);
}

/* A message of a collective that rank `from` took part in and rank `to` did not. */
static coll_status_t fail_unmatched(const struct coll_comm *comm, int from, int to) {
  const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, from);
  uint64_t recorded = recorder == NULL ? 0 : atomic_load(&recorder->recorded);
  flight_past_t past;
  char text[FLIGHT_TEXT_BYTES] = "a collective";
  if (recorded > 0 && flight_read(recorder, recorded - 1, &past)) {
    flight_call_describe(past.call, comm_forced_name(past.call), text, sizeof text);
  }
  return base_fail(
      COLL_ERROR_MISMATCH,
      "rank %d is in %s, but rank %d is in destroy() and has not taken part: all ranks "
      "must make the same calls in the same order",
      from, text, to);
}

static coll_status_t check_port(const struct coll_comm *comm, int peer, int channel) {
  transport_t *route = comm->world.routes[peer];
  transport_port_t *port = route->ops->port(route, peer, channel);
  flight_call_t call;
  int rank = comm->rank;
  if (port == NULL) return COLL_OK;
  if (route->ops->pending_in(port, &call)) {
    return is_pair(call) ? fail_unreceived(comm, peer, rank, call)
                         : fail_unmatched(comm, peer, rank);
  }
  if (route->ops->pending_out(port, &call)) {
    return is_pair(call) ? fail_unreceived(comm, rank, peer, call)
                         : fail_unmatched(comm, rank, peer);
  }
  return COLL_OK;
}

static coll_status_t check_multicast(const struct coll_comm *comm, int peer) {
  transport_t *route = comm->world.routes[peer];
  const void *message;
  transport_head_t head;
  bool here = false;
  if (route->mcast_bytes == 0) return COLL_OK;
  COLL_TRY(route->ops->mcast_peek(route, peer, &message, &head, &here));
  return here ? fail_unmatched(comm, peer, comm->rank) : COLL_OK;
}

static coll_status_t check_peers(const struct coll_comm *comm) {
  for (int peer = 0; peer < comm->size; peer++) {
    if (peer == comm->rank) continue;
    transport_t *route = comm->world.routes[peer];
    int channel = route->ops->used_channel(route, peer, 0);
    while (channel < TRANSPORT_CHANNELS_MAX) {
      COLL_TRY(check_port(comm, peer, channel));
      channel = route->ops->used_channel(route, peer, channel + 1);
    }
    COLL_TRY(check_multicast(comm, peer));
  }
  return COLL_OK;
}

/* A rank may leave because of a rank that it has lost on another communicator: that is then what
 * ends this one. */
static coll_status_t end_working(struct coll_comm *comm) {
  char loss[COMM_LOSS_BYTES];
  coll_status_t status = check_peers(comm);
  if (status == COLL_OK) return COLL_OK;
  int lost = comm_lost_rank(comm);
  if (lost < 0) return comm_fail(comm, status, comm->rank);
  comm_describe_loss(comm, lost, loss);
  (void)comm_fail(
      comm,
      base_fail(COLL_ERROR_RANK_LOST,
                "rank %d: %s before this rank left; the communicator has failed", comm->rank, loss),
      lost);
  return COLL_OK;
}

coll_status_t lifetime_leave(struct coll_comm *comm) {
  COLL_TRY(offload_finish(comm));
  if (comm_is_usable(comm)) return end_working(comm);
  if (atomic_load_explicit(&comm->errors.failure_returned, memory_order_relaxed)) return COLL_OK;
  coll_status_t status = comm_fail_again(comm);
  return status == COLL_ERROR_MISMATCH ? status : COLL_OK;
}
