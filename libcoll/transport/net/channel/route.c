/* Which wire a frame takes: the sockets of the pair, or the one that both ranks have in their
 * place.
 *
 * A pair begins on its sockets. The first message asks the other wire to connect; once it is ready,
 * the last frame over a socket says so (NET_SWITCH), and all further ones go by that wire. Each
 * direction switches on its own. The sockets stay: they carry what the two ends of the wire tell
 * each other, and aborts, and show that a peer has died.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "transport/net/channel/state.h"

/* ---- sending --------------------------------------------------------------------------------*/

/* Aborts go by the socket even if the wire no longer works. */
static bool is_for_socket(const net_frame_t *frame) {
  return frame->kind == NET_NOTE || frame->kind == NET_SWITCH || frame->kind == NET_PROPOSE ||
         frame->kind == NET_VERDICT;
}

static coll_status_t ask_to_connect(net_peer_t *peer) {
  wire_t *wire = peer->all->wire;
  if (!peer->has_wire || peer->is_asked || !net_pair_is_within_reach(peer->pair)) return COLL_OK;
  peer->is_asked = true;
  return wire->ops->connect(wire, peer->rank);
}

coll_status_t net_route_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent) {
  wire_t *wire = peer->all->wire;
  bool is_data = frame->kind == NET_MESSAGE || frame->kind == NET_SIGNAL;
  if (is_data) COLL_TRY(ask_to_connect(peer));
  if (frame->kind == NET_LEAVE && !peer->sends_by_wire) peer->has_left_by_socket = true;
  if (!peer->sends_by_wire || is_for_socket(frame))
    return net_order_send(peer, frame, payload, is_lent);
  if (!net_pair_is_within_reach(peer->pair)) return COLL_OK;
  return wire->ops->send(wire, peer->rank, frame, payload, is_lent);
}

static net_peer_t *peer_of(const wire_t *wire, int rank) {
  return &((const net_channels_t *)wire->owner)->peers[rank];
}

coll_status_t net_route_tell(wire_t *wire, int rank, const void *note, size_t bytes) {
  const net_frame_t frame = {.kind = NET_NOTE, .bytes = (uint32_t)bytes};
  return net_order_send(peer_of(wire, rank), &frame, note, false);
}

coll_status_t net_route_ready(wire_t *wire, int rank) {
  const net_frame_t frame = {.kind = NET_SWITCH};
  net_peer_t *peer = peer_of(wire, rank);
  if (peer->sends_by_wire || peer->has_left_by_socket) return COLL_OK;
  COLL_TRY(net_order_send(peer, &frame, NULL, false));
  peer->sends_by_wire = true;
  return COLL_OK;
}

bool net_route_is_stored(const net_peer_t *peer) {
  const wire_t *wire = peer->all->wire;
  if (net_order_is_stored(peer)) return true;
  return peer->sends_by_wire && wire->ops->is_unsent(wire, peer->rank);
}

bool net_route_is_unsent(const net_peer_t *peer) {
  const net_pair_t *pair = peer->pair;
  if (net_pair_is_pending(pair)) return net_route_is_stored(peer);
  if (!net_pair_is_open(pair) || pair->state != TRANSPORT_PEER_HERE) return false;
  if (net_route_is_stored(peer)) return net_pair_accepts(pair) || peer->sends_by_wire;
  return net_pair_is_queued(pair);
}

/* ---- receiving ------------------------------------------------------------------------------*/

static coll_status_t progress(wire_t *wire, int rank) {
  return wire != NULL ? wire->ops->progress(wire, rank) : COLL_OK;
}

/* Sends what was stored for any peer, and receives by all rails, or until a post is done. */
static coll_status_t receive_by_sockets(net_peer_t *peer) {
  wire_t *sockets = peer->all->sockets;
  const net_pair_t *pair = peer->pair;
  coll_status_t status = COLL_OK;
  sockets->ops->flush(sockets, -1);
  peer->pauses = false;
  for (int i = 0; i < pair->rail_count && status == COLL_OK && !peer->pauses; i++) {
    status = sockets->ops->progress(sockets, pair->rails[i].link);
  }
  return status;
}

/* One turn of every way. */
static coll_status_t receive_some(net_peer_t *peer) {
  COLL_TRY(receive_by_sockets(peer));
  COLL_TRY(progress(peer->all->wire, peer->rank));
  if (peer->record_due && !net_route_is_stored(peer)) net_record_publish(peer);
  return COLL_OK;
}

coll_status_t net_route_receive(net_peer_t *peer) {
  if (!peer->comes_by_wire || !net_pair_is_open(peer->pair)) return receive_some(peer);
  return progress(peer->all->wire, peer->rank);
}

/* Credits limit what can arrive while nothing is taken. */
coll_status_t net_route_receive_all(net_peer_t *peer) {
  uint64_t before;
  do {
    before = peer->all->arrivals;
    COLL_TRY(receive_some(peer));
  } while (peer->all->arrivals != before);
  return COLL_OK;
}

static bool is_drained(const net_peer_t *peer, int channel) {
  wire_t *wire = peer->all->wire;
  /* behind a NET_SWITCH that a socket holds, nothing counts as arrived */
  if (!peer->sends_by_wire) return net_order_is_drained(peer, channel);
  return net_order_is_drained(peer, -1) && !wire->ops->holds(wire, peer->rank, channel);
}

/* Receiving shows that a connection was reset, brings acknowledgements, and makes room at a peer
 * that drains, too. */
bool net_route_drain(net_peer_t *peer, int channel) {
  wire_t *sockets = peer->all->sockets;
  sockets->ops->flush(sockets, -1);
  if (is_drained(peer, channel)) return true;
  if (receive_some(peer) != COLL_OK) net_pair_give_up(peer->pair);
  return is_drained(peer, channel);
}

void net_route_leave_place(net_peer_t *peer, const char *place) {
  wire_t *sockets = peer->all->sockets;
  const net_pair_t *pair = peer->pair;
  coll_status_t status = COLL_OK;
  for (int i = 0; i < pair->rail_count && status == COLL_OK; i++) {
    status = sockets->ops->leave_place(sockets, pair->rails[i].link, place);
  }
  if (status != COLL_OK) net_pair_close(peer->pair, TRANSPORT_PEER_LOST);
}

static coll_status_t accept_early(net_peer_t *peer) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && peer->early != NULL) {
    net_early_t *first = peer->early;
    peer->early = first->next;
    status = net_arrival_accept(peer, &first->frame, first->message);
    free(first);
  }
  return status;
}

coll_status_t net_route_accept(net_peer_t *peer, const net_frame_t *frame,
                               const wire_message_t *payload) {
  wire_t *wire = peer->all->wire;
  if (wire == NULL || !peer->has_wire) return COLL_ERROR_INVALID;
  if (frame->kind == NET_NOTE) {
    if (peer->has_left_by_socket) return COLL_OK; /* it is too late to connect */
    return wire->ops->hear(wire, peer->rank, payload->data, payload->bytes);
  }
  peer->comes_by_wire = true;
  return accept_early(peer);
}

static coll_status_t keep_early(net_peer_t *peer, const net_frame_t *frame,
                                wire_message_t *message) {
  net_early_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "a frame", (void **)&made);
  if (status != COLL_OK) {
    wire_message_release(message);
    return status;
  }
  *made = (net_early_t){.frame = *frame, .message = message};
  *(peer->early == NULL ? &peer->early : &peer->early_last->next) = made;
  peer->early_last = made;
  return COLL_OK;
}

coll_status_t net_route_arrived(wire_t *wire, int rank, const net_frame_t *frame,
                                wire_message_t *message, bool is_placed) {
  net_peer_t *peer = peer_of(wire, rank);
  (void)is_placed; /* of this wire's payloads none is */
  if (!net_pair_is_within_reach(peer->pair) || is_for_socket(frame) ||
      !net_arrival_is_frame(peer, frame)) {
    wire_message_release(message);
    net_pair_give_up(peer->pair);
    return COLL_OK;
  }
  if (!peer->comes_by_wire) return keep_early(peer, frame, message);
  net_note_arrival(peer->all);
  coll_status_t status = net_arrival_accept(peer, frame, message);
  if (status != COLL_ERROR_INVALID) return status;
  net_pair_give_up(peer->pair);
  return COLL_OK;
}

void net_route_end(net_peer_t *peer) {
  if (peer->comes_by_wire) (void)progress(peer->all->wire, peer->rank);
}

void net_route_free(net_peer_t *peer) {
  while (peer->early != NULL) {
    net_early_t *first = peer->early;
    peer->early = first->next;
    wire_message_release(first->message);
    free(first);
  }
}
