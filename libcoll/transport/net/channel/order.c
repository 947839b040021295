/*
 * Frames of a pair of ranks, in the order of their numbers, whichever rail they take. What
 * overtakes others waits for them; what comes again is dropped.
 *
 * A frame is kept until the peer's library acknowledges it: its kernel may have acknowledged what a
 * reset then discards. Acknowledgements come with every frame, and where the peer sends none, after
 * a while. Between ranks that do not recover, only what waits for the first connection is kept.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "transport/net/channel/state.h"

#define UNTOLD_FRAMES 64u /* after which the peer is told what has arrived; or NET_UNTOLD_BYTES */

/* Aborts do not wait for what was lost on the way. */
static bool is_numbered(const net_frame_t *frame) {
  return frame->kind != NET_PROPOSE && frame->kind != NET_VERDICT && frame->kind != NET_RECEIVED;
}

/* ---- sending --------------------------------------------------------------------------------*/

static void note_told(net_peer_t *peer, net_frame_t *frame) {
  frame->received = peer->told = peer->received;
  peer->untold_bytes = 0;
}

static coll_status_t send_by(net_peer_t *peer, const net_rail_t *rail, net_frame_t *frame,
                             const void *payload, bool is_lent) {
  wire_t *sockets = peer->all->sockets;
  note_told(peer, frame);
  return sockets->ops->send(sockets, rail->link, frame, payload, is_lent);
}

static coll_status_t keep(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                          bool is_lent, net_outgoing_t **kept) {
  COLL_TRY(net_outgoing_create(peer, frame, payload, is_lent, kept));
  if (peer->unacked == NULL) peer->unacked_end = &peer->unacked;
  (*kept)->is_kept = true;
  *peer->unacked_end = *kept;
  peer->unacked_end = &(*kept)->next;
  return COLL_OK;
}

/* The first that is kept no longer is. */
static void drop_first(net_peer_t *peer) {
  net_outgoing_t *first = peer->unacked;
  peer->unacked = first->next;
  first->is_kept = false;
  net_outgoing_free(first);
}

static void send_kept(const net_rail_t *rail, net_outgoing_t *kept) {
  wire_t *sockets = kept->peer->all->sockets;
  kept->rail = rail->index;
  note_told(kept->peer, &kept->base.frame);
  sockets->ops->queue(sockets, rail->link, &kept->base);
}

coll_status_t net_order_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent) {
  net_pair_t *pair = peer->pair;
  net_frame_t sent = *frame;
  const net_rail_t *rail = net_pair_choose_rail(pair, frame->bytes);
  net_outgoing_t *kept = NULL;
  if (!net_pair_is_within_reach(pair)) return COLL_OK;
  if (!is_numbered(frame)) {
    return rail != NULL ? send_by(peer, rail, &sent, payload, is_lent) : COLL_OK;
  }
  bool is_pending = net_pair_is_pending(pair);
  if (rail == NULL && !is_pending && !pair->recovers) return COLL_OK;
  sent.number = peer->sent;
  if (is_pending) COLL_TRY(net_pair_ask(pair));
  if (rail == NULL || pair->recovers) COLL_TRY(keep(peer, &sent, payload, is_lent, &kept));
  peer->sent++;
  if (rail == NULL) return COLL_OK;
  if (kept == NULL) return send_by(peer, rail, &sent, payload, is_lent);
  send_kept(rail, kept);
  return COLL_OK;
}

void net_order_open(net_peer_t *peer) {
  for (net_outgoing_t *each = peer->unacked, *next; each != NULL; each = next) {
    next = each->next;
    if (each->rail >= 0) continue;
    const net_rail_t *rail = net_pair_choose_rail(peer->pair, each->base.frame.bytes);
    if (rail == NULL) return;
    send_kept(rail, each);
    if (!peer->pair->recovers) drop_first(peer);
  }
}

void net_order_forget(net_peer_t *peer, int rail) {
  for (net_outgoing_t *each = peer->unacked; each != NULL; each = each->next) {
    if (each->rail == rail) each->rail = -1;
  }
}

bool net_order_is_stored(const net_peer_t *peer) {
  bool is_waiting = peer->unacked != NULL && !net_pair_is_open(peer->pair);
  return is_waiting || net_pair_holds(peer->pair, -1);
}

/* Whether it waits for a connection: also one whose connection was reset, before the receiving end
 * has found that. */
static bool is_awaiting(const net_outgoing_t *kept) {
  const net_pair_t *pair = kept->peer->pair;
  return kept->rail < 0 || !net_rail_accepts(&pair->rails[kept->rail]);
}

bool net_order_is_drained(const net_peer_t *peer, int channel) {
  const net_outgoing_t *each = net_pair_is_within_reach(peer->pair) ? peer->unacked : NULL;
  size_t kept_bytes = 0;
  if (peer->pair->state == TRANSPORT_PEER_LOST) return false;
  for (; each != NULL; each = each->next) {
    if (channel >= 0 && !net_frame_is_message_of(&each->base.frame, channel)) continue;
    if (is_awaiting(each)) return false;
    kept_bytes += each->base.frame.bytes;
  }
  return !net_pair_holds(peer->pair, channel) && (channel < 0 || kept_bytes <= NET_UNTOLD_BYTES);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* The peer has received so many frames; a frame that comes late may say less than one before. */
static coll_status_t accept_received(net_peer_t *peer, uint32_t received) {
  uint32_t more = received - peer->acked;
  if (more > INT32_MAX) return COLL_OK;
  if (more > peer->sent - peer->acked) return COLL_ERROR_INVALID;
  peer->acked = received;
  while (peer->unacked != NULL && peer->unacked->base.frame.number - received > INT32_MAX)
    drop_first(peer);
  return COLL_OK;
}

coll_status_t net_order_tell(net_peer_t *peer) {
  const net_frame_t frame = {.kind = NET_RECEIVED};
  bool is_awaited = peer->pair->recovers && peer->received > 0;
  return is_awaited ? net_order_send(peer, &frame, NULL, false) : COLL_OK;
}

static coll_status_t tell_if_due(net_peer_t *peer) {
  bool is_due =
      peer->received - peer->told >= UNTOLD_FRAMES || peer->untold_bytes >= NET_UNTOLD_BYTES;
  return is_due ? net_order_tell(peer) : COLL_OK;
}

static void free_ahead(net_early_t *ahead) {
  wire_message_release(ahead->message);
  free(ahead);
}

static coll_status_t keep_ahead(net_peer_t *peer, const net_frame_t *frame,
                                wire_message_t *message) {
  net_early_t *made = NULL, **place = &peer->ahead;
  coll_status_t status = base_alloc(1, sizeof *made, "a frame", (void **)&made);
  if (status != COLL_OK) {
    wire_message_release(message);
    return status;
  }
  *made = (net_early_t){.frame = *frame, .message = message};
  uint32_t distance = frame->number - peer->received;
  while (*place != NULL && (*place)->frame.number - peer->received < distance) {
    place = &(*place)->next;
  }
  if (*place != NULL && (*place)->frame.number == frame->number) {
    free_ahead(made);
    return COLL_OK;
  }
  made->next = *place;
  *place = made;
  return COLL_OK;
}

static void note_received(net_peer_t *peer, const net_frame_t *frame) {
  peer->received++;
  peer->untold_bytes += frame->bytes;
}

/* Those for which a frame was missing. */
static coll_status_t accept_ahead(net_peer_t *peer) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && !peer->pair->is_closed && peer->ahead != NULL &&
         peer->ahead->frame.number == peer->received) {
    net_early_t *first = peer->ahead;
    peer->ahead = first->next;
    note_received(peer, &first->frame);
    status = net_arrival_accept(peer, &first->frame, first->message);
    free(first);
  }
  return status;
}

coll_status_t net_order_accept(net_peer_t *peer, const net_frame_t *frame, wire_message_t *payload,
                               bool is_posted) {
  coll_status_t status = accept_received(peer, frame->received);
  bool is_next = !is_numbered(frame) || frame->number == peer->received;
  bool is_late = frame->number - peer->received > INT32_MAX;
  if (status != COLL_OK || (!is_next && is_late)) {
    wire_message_release(payload);
    return status;
  }
  if (!is_next) return keep_ahead(peer, frame, payload);
  if (!is_numbered(frame)) return net_arrival_accept(peer, frame, payload);
  note_received(peer, frame);
  COLL_TRY(is_posted ? net_fifo_accept_posted(peer, frame)
                     : net_arrival_accept(peer, frame, payload));
  COLL_TRY(accept_ahead(peer));
  return tell_if_due(peer);
}

void net_order_free(net_peer_t *peer) {
  while (peer->unacked != NULL) drop_first(peer);
  while (peer->ahead != NULL) {
    net_early_t *first = peer->ahead;
    peer->ahead = first->next;
    free_ahead(first);
  }
}
