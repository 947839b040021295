/*
 * The connections of a pair of ranks, one for each pair of interfaces. If one is lost, the others
 * carry what it had to deliver, and it is made again. If it was the last one, the peer is lost when
 * no other can be made, which takes no time if its process has ended: its host refuses.
 */
#include "transport/net/end.h"

static void flush_all(net_t *end) {
  size_t count = (size_t)end->transport.size * (size_t)end->rail_count;
  for (size_t i = 0; end->unsent > 0 && i < count; i++) socket_flush(&end->rails[i]);
}

coll_status_t net_rails_receive(net_peer_t *peer) {
  coll_status_t status = COLL_OK;
  flush_all(peer->end);
  peer->pauses = false;
  for (int i = 0; i < peer->rail_count && status == COLL_OK && !peer->pauses; i++) {
    status = socket_receive(&peer->rails[i]);
  }
  return status;
}

void net_rails_leave_post(net_peer_t *peer, int channel) {
  coll_status_t status = COLL_OK;
  for (int i = 0; i < peer->rail_count && status == COLL_OK; i++) {
    status = socket_leave_post(&peer->rails[i], channel);
  }
  if (status != COLL_OK) net_rails_close(peer, TRANSPORT_PEER_LOST);
}

bool net_rails_is_stored(const net_peer_t *peer) {
  for (int i = 0; i < peer->rail_count; i++) {
    if (peer->rails[i].output != NULL) return true;
  }
  return net_order_is_waiting(peer);
}

void net_rails_close(net_peer_t *peer, transport_peer_state_t state) {
  if (peer->is_closed) return;
  peer->is_closed = true;
  for (int i = 0; i < peer->rail_count; i++) socket_close(&peer->rails[i]);
  peer->state = state;
  if (peer->has_wire) peer->end->wire->ops->disconnect(peer->end->wire, peer->rank);
  socket_note_arrival(peer->end);
}

/* The connection may have been reset, or closed by a peer to which this rail was silent. If the
 * peer has ended, its host refuses another one. */
static bool may_be_remade(const net_peer_t *peer, net_loss_t loss) {
  if (!peer->recovers || peer->state != TRANSPORT_PEER_HERE || peer->end->connector == NULL) {
    return false;
  }
  return loss == NET_LOSS_PROCESS || peer->open_count > 1;
}

static void close_rail(net_rail_t *rail) {
  socket_close(rail);
  net_order_forget(rail);
}

/* What was asked for while there were other rails has become urgent. */
static coll_status_t ask_at_once(net_peer_t *peer) {
  for (int i = 0; i < peer->rail_count; i++) {
    peer->rails[i].is_wanted = peer->rails[i].is_unreachable = false;
  }
  return net_end_ask(peer);
}

static void lose_peer(net_rail_t *rail, net_loss_t loss) {
  net_peer_t *peer = rail->peer;
  if (peer->state != TRANSPORT_PEER_LEFT) peer->loss = loss;
  peer->lost_host = rail->host;
  net_route_end(peer);
}

void net_rails_lost(net_rail_t *rail, net_loss_t loss) {
  net_peer_t *peer = rail->peer;
  bool has_others = peer->open_count > 1 && peer->recovers;
  if (may_be_remade(peer, loss)) {
    close_rail(rail);
    coll_status_t asked = has_others ? net_end_ask(peer) : ask_at_once(peer);
    if (!has_others && asked != COLL_OK) lose_peer(rail, loss);
  } else if (has_others) {
    close_rail(rail);
  } else {
    lose_peer(rail, loss);
  }
  if (!has_others) return;
  net_order_open(peer);
  net_abort_tell(peer); /* an abort is not sent again by itself */
}
