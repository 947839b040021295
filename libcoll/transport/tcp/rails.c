/*
 * The connections of a pair of ranks, one for each pair of interfaces. If one is lost, the others
 * carry what it had to deliver, and it is made again. If the last one was reset, the peer is lost
 * only when no other can be made; if it was closed, the peer's process has ended.
 */
#include "transport/tcp/end.h"

coll_status_t tcp_rails_receive(tcp_peer_t *peer) {
  coll_status_t status = COLL_OK;
  for (int i = 0; i < peer->rail_count && status == COLL_OK; i++) {
    if (peer->direct != NULL && peer->direct->done) break;
    status = tcp_stream_receive(&peer->rails[i]);
  }
  return status;
}

coll_status_t tcp_rails_receive_direct(tcp_peer_t *peer, tcp_direct_t *direct) {
  peer->direct = direct;
  coll_status_t status = tcp_rails_receive(peer), moved = COLL_OK;
  peer->direct = NULL;
  for (int i = 0; i < peer->rail_count && moved == COLL_OK; i++) {
    moved = tcp_stream_leave_caller(&peer->rails[i]);
  }
  if (moved != COLL_OK) tcp_rails_close(peer, TRANSPORT_PEER_LOST);
  return status != COLL_OK ? status : moved;
}

bool tcp_rails_is_stored(const tcp_peer_t *peer) {
  for (int i = 0; i < peer->rail_count; i++) {
    if (peer->rails[i].out_begin != peer->rails[i].out_end) return true;
  }
  return tcp_order_is_kept(peer);
}

void tcp_rails_close(tcp_peer_t *peer, transport_peer_state_t state) {
  if (peer->is_closed) return;
  peer->is_closed = true;
  for (int i = 0; i < peer->rail_count; i++) tcp_stream_close(&peer->rails[i]);
  peer->state = state;
  if (peer->has_fabric) peer->end->fabric->ops->disconnect(peer->end->fabric, peer->rank);
  tcp_stream_note_arrival(peer->end);
}

/* Whether another connection is to be made: this one did not end because the peer closed it. */
static bool may_be_remade(const tcp_peer_t *peer, int error) {
  return error != 0 && peer->recovers && peer->state == TRANSPORT_PEER_HERE &&
         peer->end->connector != NULL;
}

void tcp_rails_lost(tcp_rail_t *rail, int error) {
  tcp_peer_t *peer = rail->peer;
  bool is_remade = may_be_remade(peer, error), has_others = peer->open_count > 1 && peer->recovers;
  if (is_remade || has_others) {
    tcp_stream_close(rail);
    tcp_order_forget(rail);
    is_remade = is_remade && tcp_end_ask(peer) == COLL_OK;
  }
  if (has_others) {
    tcp_order_open(peer);
  } else if (!is_remade) {
    tcp_route_end(peer);
  }
}
