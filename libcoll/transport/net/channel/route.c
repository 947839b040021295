/* Which way a frame goes: by the socket of the pair, or by another wire (wire/ops.h). */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/alloc.h"
#include "transport/net/end.h"

#define CLOSED 7 /* tcp_info.tcpi_state: TCP_CLOSE in the kernel's net/tcp_states.h */

/* ---- sending --------------------------------------------------------------------------------*/

/* Aborts go by the socket even if the wire no longer works. */
static bool is_for_socket(const net_frame_t *frame) {
  return frame->kind == NET_NOTE || frame->kind == NET_SWITCH || frame->kind == NET_PROPOSE ||
         frame->kind == NET_VERDICT;
}

static coll_status_t ask_to_connect(net_peer_t *peer) {
  wire_t *wire = peer->end->wire;
  if (!peer->has_wire || peer->is_asked || !net_peer_is_within_reach(peer)) return COLL_OK;
  peer->is_asked = true;
  return wire->ops->connect(wire, peer->rank);
}

coll_status_t net_route_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent) {
  wire_t *wire = peer->end->wire;
  bool is_data = frame->kind == NET_MESSAGE || frame->kind == NET_SIGNAL;
  if (is_data) COLL_TRY(ask_to_connect(peer));
  if (frame->kind == NET_LEAVE && !peer->sends_by_wire) peer->has_left_by_socket = true;
  if (!peer->sends_by_wire || is_for_socket(frame))
    return net_order_send(peer, frame, payload, is_lent);
  if (!net_peer_is_within_reach(peer)) return COLL_OK;
  return wire->ops->send(wire, peer->rank, frame, payload);
}

coll_status_t wire_tell(net_t *end, int peer, const void *note, size_t bytes) {
  const net_frame_t frame = {.kind = NET_NOTE, .bytes = (uint32_t)bytes};
  return net_order_send(&end->peers[peer], &frame, note, false);
}

coll_status_t wire_ready(net_t *end, int peer) {
  const net_frame_t frame = {.kind = NET_SWITCH};
  if (end->peers[peer].sends_by_wire || end->peers[peer].has_left_by_socket) return COLL_OK;
  COLL_TRY(net_order_send(&end->peers[peer], &frame, NULL, false));
  end->peers[peer].sends_by_wire = true;
  return COLL_OK;
}

bool net_route_is_stored(const net_peer_t *peer) {
  const wire_t *wire = peer->end->wire;
  if (net_rails_is_stored(peer)) return true;
  return peer->sends_by_wire && wire->ops->is_unsent(wire, peer->rank);
}

static bool is_mute(const net_peer_t *peer) {
  for (int i = 0; i < peer->rail_count; i++) {
    if (peer->rails[i].fd >= 0 && !peer->rails[i].is_mute) return false;
  }
  return true;
}

/* Whether the socket has something that its host has not yet sent, or the peer's not received; or
 * was reset, which the next look at it shows. */
static bool is_queued(const net_rail_t *rail) {
  int queued = 0;
  struct tcp_info info;
  socklen_t length = sizeof info;
  if (rail->fd < 0) return false;
  if (rail->is_mute) return rail->peer->recovers;
  if (rail->peer->recovers && getsockopt(rail->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
      info.tcpi_state == CLOSED) {
    return true;
  }
  return ioctl(rail->fd, SIOCOUTQ, &queued) == 0 && queued > 0;
}

bool net_route_is_unsent(const net_peer_t *peer) {
  if (net_peer_is_pending(peer)) return net_route_is_stored(peer);
  if (!net_peer_is_open(peer) || peer->state != TRANSPORT_PEER_HERE) return false;
  if (net_route_is_stored(peer)) return !is_mute(peer) || peer->sends_by_wire;
  for (int i = 0; i < peer->rail_count; i++) {
    if (is_queued(&peer->rails[i])) return true;
  }
  return false;
}

/* ---- receiving ------------------------------------------------------------------------------*/

static coll_status_t progress(net_t *end) {
  return end->wire != NULL ? end->wire->ops->progress(end->wire) : COLL_OK;
}

/* What else is to be done when the socket was read. */
static coll_status_t finish_receiving(net_peer_t *peer) {
  COLL_TRY(progress(peer->end));
  if (peer->record_due && !net_route_is_stored(peer)) socket_publish(peer);
  return COLL_OK;
}

coll_status_t net_route_receive_all(net_peer_t *peer) {
  COLL_TRY(net_rails_receive(peer));
  return finish_receiving(peer);
}

coll_status_t net_route_receive(net_peer_t *peer) {
  if (peer->comes_by_wire && net_peer_is_open(peer)) return progress(peer->end);
  return net_route_receive_all(peer);
}

static coll_status_t accept_early(net_peer_t *peer) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && peer->early != NULL) {
    net_early_t *first = peer->early;
    peer->early = first->next;
    status = net_fifo_accept(peer, &first->frame, first->message);
    free(first);
  }
  return status;
}

coll_status_t net_route_accept(net_peer_t *peer, const net_frame_t *frame,
                               const wire_message_t *payload) {
  wire_t *wire = peer->end->wire;
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

coll_status_t wire_arrived(net_t *end, int rank, const net_frame_t *frame,
                           wire_message_t *message) {
  net_peer_t *peer = &end->peers[rank];
  if (!net_peer_is_within_reach(peer) || is_for_socket(frame) || !socket_is_frame(peer, frame)) {
    wire_message_release(message);
    wire_lost(end, rank);
    return COLL_OK;
  }
  if (message != NULL) message->call = frame->call;
  if (!peer->comes_by_wire) return keep_early(peer, frame, message);
  socket_note_arrival(end);
  coll_status_t status = net_fifo_accept(peer, frame, message);
  if (status != COLL_ERROR_INVALID) return status;
  wire_lost(end, rank);
  return COLL_OK;
}

void wire_fetched(net_t *end) {
  socket_note_arrival(end);
}

/* ---- the end of a connection ----------------------------------------------------------------*/

void net_route_close(net_peer_t *peer) {
  net_rails_close(peer,
                  peer->state == TRANSPORT_PEER_LEFT ? TRANSPORT_PEER_LEFT : TRANSPORT_PEER_LOST);
}

void wire_lost(net_t *end, int peer) {
  net_route_close(&end->peers[peer]);
}

void net_route_end(net_peer_t *peer) {
  if (peer->comes_by_wire) (void)progress(peer->end);
  net_route_close(peer);
}

void net_route_free(net_peer_t *peer) {
  while (peer->early != NULL) {
    net_early_t *first = peer->early;
    peer->early = first->next;
    wire_message_release(first->message);
    free(first);
  }
}

/* ---- messages -------------------------------------------------------------------------------*/

_Static_assert(offsetof(wire_message_t, data) == WIRE_MESSAGE_HEAD_BYTES, "wires rely on it");

coll_status_t wire_message_create(size_t bytes, wire_message_t **message) {
  wire_message_t *made = malloc(sizeof *made + bytes);
  if (made == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
  }
  *made = (wire_message_t){.bytes = bytes};
  *message = made;
  return COLL_OK;
}

wire_message_t *wire_message_place(void *memory, size_t bytes,
                                   void (*release)(wire_message_t *message, void *owner),
                                   void *owner) {
  wire_message_t *message = memory;
  *message = (wire_message_t){.bytes = bytes, .release = release, .owner = owner};
  return message;
}

void *wire_message_data(wire_message_t *message) {
  return message->data;
}

void wire_message_release(wire_message_t *message) {
  if (message == NULL || message->release == NULL) {
    free(message);
  } else {
    message->release(message, message->owner);
  }
}
