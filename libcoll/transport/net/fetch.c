/* The slots of transport_fetch_ops_t, which a wire may have. Each takes the end's lock. */
#include "transport/net/state.h"

static coll_status_t unlock(net_t *end, coll_status_t status) {
  pthread_mutex_unlock(&end->lock);
  return status;
}

static net_t *lock(const transport_port_t *port) {
  net_t *end = net_of(port->transport);
  pthread_mutex_lock(&end->lock);
  return end;
}

/* The peer can fetch only if its direction is ready, too. */
static bool can_fetch(const net_peer_t *peer) {
  return peer->sends_by_wire && peer->comes_by_wire && peer->all->wire->ops->expose != NULL &&
         net_pair_is_within_reach(peer->pair);
}

static coll_status_t expose(transport_port_t *port, const void *data, size_t bytes,
                            transport_exposure_t *exposure, bool *exposed) {
  net_t *end = lock(port);
  const net_peer_t *peer = net_fifo_of(port)->peer;
  coll_status_t status = COLL_OK;
  *exposed = false;
  if (can_fetch(peer)) {
    status = end->wire->ops->expose(end->wire, peer->rank, data, bytes, exposure, exposed);
  }
  return unlock(end, status);
}

static void withdraw(transport_port_t *port, const transport_exposure_t *exposure,
                     bool is_fetched) {
  net_t *end = lock(port);
  int peer = net_fifo_of(port)->peer->rank;
  end->wire->ops->withdraw(end->wire, peer, exposure, is_fetched);
  unlock(end, COLL_OK);
}

static coll_status_t begin(transport_port_t *port, const transport_exposure_t *exposure, void *dst,
                           size_t bytes, transport_fetch_t **fetch) {
  net_t *end = lock(port);
  wire_t *wire = end->wire;
  coll_status_t status = COLL_ERROR_UNSUPPORTED;
  if (wire != NULL && wire->ops->fetch != NULL) {
    status = wire->ops->fetch(wire, net_fifo_of(port)->peer->rank, exposure, dst, bytes, fetch);
    if (status == COLL_OK) (*fetch)->port = port;
  } else {
    base_fail(status, "rank %d: rank %d has sent a message that only RDMA can fetch",
              port->transport->rank, net_fifo_of(port)->peer->rank);
  }
  return unlock(end, status);
}

static coll_status_t advance(transport_fetch_t *fetch, bool *done) {
  net_t *end = lock(fetch->port);
  *done = false;
  coll_status_t status = net_route_receive(net_fifo_of(fetch->port)->peer);
  if (status == COLL_OK) status = end->wire->ops->advance(end->wire, fetch, done);
  return unlock(end, status);
}

static void stop(transport_fetch_t *fetch) {
  net_t *end = lock(fetch->port);
  end->wire->ops->stop(end->wire, fetch);
  unlock(end, COLL_OK);
}

const transport_fetch_ops_t net_fetch_ops = {
    .expose = expose, .withdraw = withdraw, .begin = begin, .advance = advance, .stop = stop};
