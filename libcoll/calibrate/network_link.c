/* Long messages are sent as the engine sends them: in slots, from the sender's memory and to the
 * receiver's where the transport can. */
#include "calibrate/network_link.h"

#include <sched.h>

#include "base/atomics.h"
#include "base/cancel.h"
#include "base/clock.h"

#define YIELDS 400
#define SLEEP_NS 10000000u

network_link_t calibrate_link_to(struct coll_comm *comm, int peer, uint64_t deadline_ns) {
  transport_t *local = comm->local;
  return (network_link_t){.comm = comm,
                          .peer = peer,
                          .port = local->ops->port(local, peer, TRANSPORT_CHANNEL_P2P),
                          .deadline_ns = deadline_ns};
}

/* ---- waiting --------------------------------------------------------------------------------*/

typedef struct wait {
  int polls;
  bool is_armed;
  bool has_lost; /* the peer was found lost, and what it sent before is polled for once more */
} wait_t;

static coll_status_t fail_lost(const network_link_t *link) {
  struct coll_comm *comm = link->comm;
  char loss[COMM_LOSS_BYTES];
  comm_describe_loss(comm, link->peer, loss);
  coll_status_t status =
      base_fail(COLL_ERROR_RANK_LOST, "rank %d: %s during coll_comm_create", comm->rank, loss);
  return comm_fail(comm, status, link->peer);
}

static coll_status_t time_out(const network_link_t *link) {
  struct coll_comm *comm = link->comm;
  coll_status_t status = base_fail(
      COLL_ERROR_TIMEOUT,
      "rank %d (pid %d) has connected, but does not go on in coll_comm_create: is it stopped?",
      link->peer, (int)comm->peers[link->peer].pid);
  return comm_fail(comm, status, link->peer);
}

static coll_status_t check(const network_link_t *link, wait_t *wait) {
  struct coll_comm *comm = link->comm;
  transport_t *local = comm->local;
  if (base_cancel_is_requested()) comm_abort(comm, comm->rank, base_cancel_why());
  COLL_TRY(comm_failure(comm));
  local->ops->waits_for(local, link->peer);
  bool is_lost = local->ops->peer_state(local, link->peer) != TRANSPORT_PEER_HERE;
  if (is_lost && wait->has_lost) return fail_lost(link);
  wait->has_lost = is_lost;
  return base_clock_now_ns() >= link->deadline_ns ? time_out(link) : COLL_OK;
}

/* After a poll that found nothing. The transport is armed for one poll before it sleeps. */
static coll_status_t wait_once(const network_link_t *link, wait_t *wait) {
  transport_t *local = link->comm->local;
  int spins = link->comm->spin_limit;
  if (wait->polls < spins + YIELDS) {
    if (wait->polls++ < spins) {
      base_cpu_relax();
    } else {
      sched_yield();
    }
    return COLL_OK;
  }
  if (!wait->is_armed) {
    local->ops->arm(local);
    wait->is_armed = true;
    return COLL_OK;
  }
  if (!wait->has_lost) local->ops->sleep(local, SLEEP_NS);
  local->ops->disarm(local);
  wait->is_armed = false;
  return check(link, wait);
}

static void end_wait(const network_link_t *link, wait_t *wait) {
  if (wait->is_armed) link->comm->local->ops->disarm(link->comm->local);
  *wait = (wait_t){0};
}

/* ---- messages -------------------------------------------------------------------------------*/

static size_t part_of(const network_link_t *link, size_t left) {
  size_t slot_bytes = link->comm->local->slot_bytes;
  return left < slot_bytes ? left : slot_bytes;
}

static coll_status_t send_part(const network_link_t *link, const char *out, size_t left,
                               size_t *moved) {
  const transport_t *end = link->port->transport;
  const transport_head_t head = {.bytes = part_of(link, left)};
  bool done;
  COLL_TRY(end->borrows ? end->ops->send_lent(link->port, out, &head, &done)
                        : end->ops->send(link->port, out, &head, &done));
  *moved = done ? head.bytes : 0;
  return COLL_OK;
}

static coll_status_t recv_part(const network_link_t *link, char *in, size_t left, size_t *moved) {
  const transport_t *end = link->port->transport;
  size_t bytes = part_of(link, left);
  transport_head_t head;
  bool done;
  COLL_TRY(end->recvs_direct ? end->ops->recv_post(link->port, in, bytes, &head, &done)
                             : end->ops->recv(link->port, in, bytes, &head, &done));
  *moved = done ? bytes : 0;
  return COLL_OK;
}

static coll_status_t exchange(const network_link_t *link, const char *out, size_t out_bytes,
                              char *in, size_t in_bytes, wait_t *wait) {
  while (out_bytes > 0 || in_bytes > 0) {
    size_t sent = 0, received = 0;
    if (out_bytes > 0) COLL_TRY(send_part(link, out, out_bytes, &sent));
    if (in_bytes > 0) COLL_TRY(recv_part(link, in, in_bytes, &received));
    out += sent;
    out_bytes -= sent;
    in += received;
    in_bytes -= received;
    if (sent + received > 0) {
      end_wait(link, wait);
    } else {
      COLL_TRY(wait_once(link, wait));
    }
  }
  return COLL_OK;
}

/* The transport itself may fail, which it does not tell the other ranks. */
coll_status_t calibrate_link_exchange(const network_link_t *link, const void *out, size_t out_bytes,
                                      void *in, size_t in_bytes) {
  transport_t *local = link->comm->local;
  wait_t wait = {0};
  coll_status_t status = exchange(link, out, out_bytes, in, in_bytes, &wait);
  end_wait(link, &wait);
  local->ops->release(local);
  if (status == COLL_OK) return COLL_OK;
  local->ops->cancel(local);
  return comm_fail(link->comm, status, link->comm->rank);
}
