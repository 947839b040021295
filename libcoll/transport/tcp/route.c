/* Which way a frame goes: by the socket of the pair, or by the netmod (netmod.h). */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/alloc.h"
#include "transport/tcp/end.h"

#define CLOSED 7 /* tcp_info.tcpi_state: TCP_CLOSE in the kernel's net/tcp_states.h */

/* ---- sending --------------------------------------------------------------------------------*/

/* Aborts go by the socket even if the netmod no longer works. */
static bool is_for_socket(const tcp_frame_t *frame) {
  return frame->kind == TCP_NOTE || frame->kind == TCP_SWITCH || frame->kind == TCP_PROPOSE ||
         frame->kind == TCP_VERDICT;
}

static coll_status_t ask_to_connect(tcp_peer_t *peer) {
  tcp_netmod_t *netmod = peer->end->netmod;
  if (!peer->has_netmod || peer->is_asked || !tcp_peer_is_within_reach(peer)) return COLL_OK;
  peer->is_asked = true;
  return netmod->ops->connect(netmod, peer->rank);
}

coll_status_t tcp_route_send(tcp_peer_t *peer, const tcp_frame_t *frame, const void *payload,
                             bool is_lent) {
  tcp_netmod_t *netmod = peer->end->netmod;
  bool is_data = frame->kind == TCP_MESSAGE || frame->kind == TCP_SIGNAL;
  if (is_data) COLL_TRY(ask_to_connect(peer));
  if (frame->kind == TCP_LEAVE && !peer->sends_by_netmod) peer->has_left_by_socket = true;
  if (!peer->sends_by_netmod || is_for_socket(frame))
    return tcp_order_send(peer, frame, payload, is_lent);
  if (!tcp_peer_is_within_reach(peer)) return COLL_OK;
  return netmod->ops->send(netmod, peer->rank, frame, payload);
}

coll_status_t tcp_netmod_tell(tcp_t *end, int peer, const void *note, size_t bytes) {
  const tcp_frame_t frame = {.kind = TCP_NOTE, .bytes = (uint32_t)bytes};
  return tcp_order_send(&end->peers[peer], &frame, note, false);
}

coll_status_t tcp_netmod_ready(tcp_t *end, int peer) {
  const tcp_frame_t frame = {.kind = TCP_SWITCH};
  if (end->peers[peer].sends_by_netmod || end->peers[peer].has_left_by_socket) return COLL_OK;
  COLL_TRY(tcp_order_send(&end->peers[peer], &frame, NULL, false));
  end->peers[peer].sends_by_netmod = true;
  return COLL_OK;
}

bool tcp_route_is_stored(const tcp_peer_t *peer) {
  const tcp_netmod_t *netmod = peer->end->netmod;
  if (tcp_rails_is_stored(peer)) return true;
  return peer->sends_by_netmod && netmod->ops->is_unsent(netmod, peer->rank);
}

static bool is_mute(const tcp_peer_t *peer) {
  for (int i = 0; i < peer->rail_count; i++) {
    if (peer->rails[i].fd >= 0 && !peer->rails[i].is_mute) return false;
  }
  return true;
}

/* Whether the socket has something that its host has not yet sent, or the peer's not received; or
 * was reset, which the next look at it shows. */
static bool is_queued(const tcp_rail_t *rail) {
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

bool tcp_route_is_unsent(const tcp_peer_t *peer) {
  if (tcp_peer_is_pending(peer)) return tcp_route_is_stored(peer);
  if (!tcp_peer_is_open(peer) || peer->state != TRANSPORT_PEER_HERE) return false;
  if (tcp_route_is_stored(peer)) return !is_mute(peer) || peer->sends_by_netmod;
  for (int i = 0; i < peer->rail_count; i++) {
    if (is_queued(&peer->rails[i])) return true;
  }
  return false;
}

/* ---- receiving ------------------------------------------------------------------------------*/

static coll_status_t progress(tcp_t *end) {
  return end->netmod != NULL ? end->netmod->ops->progress(end->netmod) : COLL_OK;
}

/* What else is to be done when the socket was read. */
static coll_status_t finish_receiving(tcp_peer_t *peer) {
  COLL_TRY(progress(peer->end));
  if (peer->record_due && !tcp_route_is_stored(peer)) tcp_stream_publish(peer);
  return COLL_OK;
}

coll_status_t tcp_route_receive_all(tcp_peer_t *peer) {
  COLL_TRY(tcp_rails_receive(peer));
  return finish_receiving(peer);
}

coll_status_t tcp_route_receive(tcp_peer_t *peer) {
  if (peer->comes_by_netmod && tcp_peer_is_open(peer)) return progress(peer->end);
  return tcp_route_receive_all(peer);
}

static coll_status_t accept_early(tcp_peer_t *peer) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && peer->early != NULL) {
    tcp_early_t *first = peer->early;
    peer->early = first->next;
    status = tcp_fifo_accept(peer, &first->frame, first->message);
    free(first);
  }
  return status;
}

coll_status_t tcp_route_accept(tcp_peer_t *peer, const tcp_frame_t *frame,
                               const tcp_message_t *payload) {
  tcp_netmod_t *netmod = peer->end->netmod;
  if (netmod == NULL || !peer->has_netmod) return COLL_ERROR_INVALID;
  if (frame->kind == TCP_NOTE) {
    if (peer->has_left_by_socket) return COLL_OK; /* it is too late to connect */
    return netmod->ops->hear(netmod, peer->rank, payload->data, payload->bytes);
  }
  peer->comes_by_netmod = true;
  return accept_early(peer);
}

static coll_status_t keep_early(tcp_peer_t *peer, const tcp_frame_t *frame,
                                tcp_message_t *message) {
  tcp_early_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "a frame", (void **)&made);
  if (status != COLL_OK) {
    tcp_message_release(message);
    return status;
  }
  *made = (tcp_early_t){.frame = *frame, .message = message};
  *(peer->early == NULL ? &peer->early : &peer->early_last->next) = made;
  peer->early_last = made;
  return COLL_OK;
}

coll_status_t tcp_netmod_arrived(tcp_t *end, int rank, const tcp_frame_t *frame,
                                 tcp_message_t *message) {
  tcp_peer_t *peer = &end->peers[rank];
  if (!tcp_peer_is_within_reach(peer) || is_for_socket(frame) ||
      !tcp_stream_is_frame(peer, frame)) {
    tcp_message_release(message);
    tcp_netmod_lost(end, rank);
    return COLL_OK;
  }
  if (message != NULL) message->call = frame->call;
  if (!peer->comes_by_netmod) return keep_early(peer, frame, message);
  tcp_stream_note_arrival(end);
  coll_status_t status = tcp_fifo_accept(peer, frame, message);
  if (status != COLL_ERROR_INVALID) return status;
  tcp_netmod_lost(end, rank);
  return COLL_OK;
}

void tcp_netmod_fetched(tcp_t *end) {
  tcp_stream_note_arrival(end);
}

/* ---- the end of a connection ----------------------------------------------------------------*/

void tcp_route_close(tcp_peer_t *peer) {
  tcp_rails_close(peer,
                  peer->state == TRANSPORT_PEER_LEFT ? TRANSPORT_PEER_LEFT : TRANSPORT_PEER_LOST);
}

void tcp_netmod_lost(tcp_t *end, int peer) {
  tcp_route_close(&end->peers[peer]);
}

void tcp_route_end(tcp_peer_t *peer) {
  if (peer->comes_by_netmod) (void)progress(peer->end);
  tcp_route_close(peer);
}

void tcp_route_free(tcp_peer_t *peer) {
  while (peer->early != NULL) {
    tcp_early_t *first = peer->early;
    peer->early = first->next;
    tcp_message_release(first->message);
    free(first);
  }
}

/* ---- messages -------------------------------------------------------------------------------*/

_Static_assert(offsetof(tcp_message_t, data) == TCP_MESSAGE_HEAD_BYTES, "netmods rely on it");

coll_status_t tcp_message_create(size_t bytes, tcp_message_t **message) {
  tcp_message_t *made = malloc(sizeof *made + bytes);
  if (made == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
  }
  *made = (tcp_message_t){.bytes = bytes};
  *message = made;
  return COLL_OK;
}

tcp_message_t *tcp_message_place(void *memory, size_t bytes,
                                 void (*release)(tcp_message_t *message, void *owner),
                                 void *owner) {
  tcp_message_t *message = memory;
  *message = (tcp_message_t){.bytes = bytes, .release = release, .owner = owner};
  return message;
}

void *tcp_message_data(tcp_message_t *message) {
  return message->data;
}

void tcp_message_release(tcp_message_t *message) {
  if (message == NULL || message->release == NULL) {
    free(message);
  } else {
    message->release(message, message->owner);
  }
}
