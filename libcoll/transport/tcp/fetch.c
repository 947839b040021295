/* The slots of transport_fetch_ops_t, which a netmod may have. Each takes the end's lock. */
#include "transport/tcp/end.h"

static coll_status_t unlock(tcp_t *end, coll_status_t status) {
  pthread_mutex_unlock(&end->lock);
  return status;
}

static tcp_t *lock(const transport_port_t *port) {
  tcp_t *end = tcp_end_of(port->transport);
  pthread_mutex_lock(&end->lock);
  return end;
}

/* The peer can fetch only if its direction is ready, too. */
static bool can_fetch(const tcp_peer_t *peer) {
  return peer->sends_by_netmod && peer->comes_by_netmod && peer->end->netmod->ops->expose != NULL &&
         tcp_peer_is_within_reach(peer);
}

static coll_status_t expose(transport_port_t *port, const void *data, size_t bytes,
                            transport_exposure_t *exposure, bool *exposed) {
  tcp_t *end = lock(port);
  const tcp_peer_t *peer = tcp_fifo_of(port)->peer;
  coll_status_t status = COLL_OK;
  *exposed = false;
  if (can_fetch(peer)) {
    status = end->netmod->ops->expose(end->netmod, peer->rank, data, bytes, exposure, exposed);
  }
  return unlock(end, status);
}

static void withdraw(transport_port_t *port, const transport_exposure_t *exposure,
                     bool is_fetched) {
  tcp_t *end = lock(port);
  int peer = tcp_fifo_of(port)->peer->rank;
  end->netmod->ops->withdraw(end->netmod, peer, exposure, is_fetched);
  unlock(end, COLL_OK);
}

static coll_status_t begin(transport_port_t *port, const transport_exposure_t *exposure, void *dst,
                           size_t bytes, transport_fetch_t **fetch) {
  tcp_t *end = lock(port);
  tcp_netmod_t *netmod = end->netmod;
  coll_status_t status = COLL_ERROR_UNSUPPORTED;
  if (netmod != NULL && netmod->ops->fetch != NULL) {
    status = netmod->ops->fetch(netmod, tcp_fifo_of(port)->peer->rank, exposure, dst, bytes, fetch);
    if (status == COLL_OK) (*fetch)->port = port;
  } else {
    base_fail(status, "rank %d: rank %d has sent a message that only a netmod can fetch",
              port->transport->rank, tcp_fifo_of(port)->peer->rank);
  }
  return unlock(end, status);
}

static coll_status_t advance(transport_fetch_t *fetch, bool *done) {
  tcp_t *end = lock(fetch->port);
  *done = false;
  coll_status_t status = tcp_route_receive(tcp_fifo_of(fetch->port)->peer);
  if (status == COLL_OK) status = end->netmod->ops->advance(end->netmod, fetch, done);
  return unlock(end, status);
}

static void stop(transport_fetch_t *fetch) {
  tcp_t *end = lock(fetch->port);
  end->netmod->ops->stop(end->netmod, fetch);
  unlock(end, COLL_OK);
}

const transport_fetch_ops_t tcp_fetch_ops = {
    .expose = expose, .withdraw = withdraw, .begin = begin, .advance = advance, .stop = stop};
