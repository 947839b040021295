/*
 * Frames of a pair of ranks, in the order of their numbers, whichever rail they take. Long ones
 * take the rail with the least under way, so that a faster rail carries more. What overtakes
 * others waits for them; what comes again is dropped.
 *
 * A frame is kept until the peer's library acknowledges it: its kernel may have acknowledged what a
 * reset then discards. Acknowledgements come with every frame, and where the peer sends none, after
 * a while. Between ranks that do not recover, only what waits for the first connection is kept.
 */
#include <limits.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/net/end.h"

#define SPREAD_BYTES 8192u /* of payloads from which the rail is chosen by load */
/* A rail that became silent gets no long frames for a second, then two, and so on: on its way may
 * be a hop through which only short packets pass. */
#define DISTRUST_NS UINT64_C(1000000000)
#define DISTRUST_DOUBLINGS_MAX 6
#define UNTOLD_FRAMES 64u /* after which the peer is told what has arrived; or NET_UNTOLD_BYTES */

/* Aborts do not wait for what was lost on the way. */
static bool is_numbered(const net_frame_t *frame) {
  return frame->kind != NET_PROPOSE && frame->kind != NET_VERDICT && frame->kind != NET_RECEIVED;
}

/* ---- sending --------------------------------------------------------------------------------*/

/* Bytes that were sent and did not reach the peer's host. */
static size_t load_of(const net_rail_t *rail) {
  int queued = 0;
  if (ioctl(rail->fd, SIOCOUTQ, &queued) != 0) return SIZE_MAX;
  return (size_t)queued + rail->output_bytes - rail->written;
}

static bool is_distrusted(const net_rail_t *rail) {
  int doublings = rail->silences - 1;
  if (rail->silences == 0) return false;
  if (doublings > DISTRUST_DOUBLINGS_MAX) doublings = DISTRUST_DOUBLINGS_MAX;
  return base_clock_now_ns() < rail->silent_ns + (DISTRUST_NS << doublings);
}

/* NULL: none is connected and accepts something. */
static net_rail_t *choose_rail(const net_peer_t *peer, size_t bytes) {
  net_rail_t *best = NULL;
  size_t least = SIZE_MAX;
  for (int i = 0; i < peer->rail_count; i++) {
    net_rail_t *rail = &peer->rails[i];
    if (rail->fd < 0 || rail->is_mute) continue;
    if (bytes < SPREAD_BYTES || peer->open_count == 1) return rail;
    size_t load = is_distrusted(rail) ? SIZE_MAX : load_of(rail);
    if (best == NULL || load < least) {
      best = rail;
      least = load;
    }
  }
  return best;
}

static void note_told(net_peer_t *peer, net_frame_t *frame) {
  frame->received = peer->told = peer->received;
  peer->untold_bytes = 0;
}

static coll_status_t send_by(net_rail_t *rail, net_frame_t *frame, const void *payload,
                             bool is_lent) {
  note_told(rail->peer, frame);
  return socket_send(rail, frame, payload, is_lent);
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

static void send_kept(net_rail_t *rail, net_outgoing_t *kept) {
  kept->rail = rail->index;
  note_told(rail->peer, &kept->frame);
  socket_queue(rail, kept);
}

coll_status_t net_order_send(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                             bool is_lent) {
  net_frame_t sent = *frame;
  net_rail_t *rail = choose_rail(peer, frame->bytes);
  net_outgoing_t *kept = NULL;
  if (!net_peer_is_within_reach(peer)) return COLL_OK;
  if (!is_numbered(frame)) return rail != NULL ? send_by(rail, &sent, payload, is_lent) : COLL_OK;
  bool is_pending = net_peer_is_pending(peer);
  if (rail == NULL && !is_pending && !peer->recovers) return COLL_OK;
  sent.number = peer->sent;
  if (is_pending) COLL_TRY(net_end_ask(peer));
  if (rail == NULL || peer->recovers) COLL_TRY(keep(peer, &sent, payload, is_lent, &kept));
  peer->sent++;
  if (rail == NULL) return COLL_OK;
  if (kept == NULL) return send_by(rail, &sent, payload, is_lent);
  send_kept(rail, kept);
  return COLL_OK;
}

void net_order_open(net_peer_t *peer) {
  for (net_outgoing_t *each = peer->unacked, *next; each != NULL; each = next) {
    next = each->next;
    if (each->rail >= 0) continue;
    net_rail_t *rail = choose_rail(peer, each->frame.bytes);
    if (rail == NULL) return;
    send_kept(rail, each);
    if (!peer->recovers) drop_first(peer);
  }
}

void net_order_forget(const net_rail_t *rail) {
  for (net_outgoing_t *each = rail->peer->unacked; each != NULL; each = each->next) {
    if (each->rail == rail->index) each->rail = -1;
  }
}

bool net_order_is_waiting(const net_peer_t *peer) {
  return peer->unacked != NULL && !net_peer_is_open(peer);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* The peer has received so many frames; a frame that comes late may say less than one before. */
static coll_status_t accept_received(net_peer_t *peer, uint32_t received) {
  uint32_t more = received - peer->acked;
  if (more > INT32_MAX) return COLL_OK;
  if (more > peer->sent - peer->acked) return COLL_ERROR_INVALID;
  peer->acked = received;
  while (peer->unacked != NULL && peer->unacked->frame.number - received > INT32_MAX)
    drop_first(peer);
  return COLL_OK;
}

static coll_status_t tell_received(net_peer_t *peer) {
  bool is_due =
      peer->received - peer->told >= UNTOLD_FRAMES || peer->untold_bytes >= NET_UNTOLD_BYTES;
  const net_frame_t frame = {.kind = NET_RECEIVED};
  return peer->recovers && is_due ? net_order_send(peer, &frame, NULL, false) : COLL_OK;
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
  while (status == COLL_OK && !peer->is_closed && peer->ahead != NULL &&
         peer->ahead->frame.number == peer->received) {
    net_early_t *first = peer->ahead;
    peer->ahead = first->next;
    note_received(peer, &first->frame);
    status = net_fifo_accept(peer, &first->frame, first->message);
    free(first);
  }
  return status;
}

bool net_order_is_next(const net_rail_t *rail) {
  return rail->frame.number == rail->peer->received;
}

coll_status_t net_order_accept(net_rail_t *rail, wire_message_t *payload, bool is_posted) {
  net_peer_t *peer = rail->peer;
  const net_frame_t *frame = &rail->frame;
  coll_status_t status = accept_received(peer, frame->received);
  bool is_next = !is_numbered(frame) || net_order_is_next(rail);
  bool is_late = frame->number - peer->received > INT32_MAX;
  if (status != COLL_OK || (!is_next && is_late)) {
    wire_message_release(payload);
    return status;
  }
  if (!is_next) return keep_ahead(peer, frame, payload);
  if (!is_numbered(frame)) return net_fifo_accept(peer, frame, payload);
  note_received(peer, frame);
  COLL_TRY(is_posted ? net_fifo_accept_posted(peer, frame) : net_fifo_accept(peer, frame, payload));
  COLL_TRY(accept_ahead(peer));
  return tell_received(peer);
}

void net_order_free(net_peer_t *peer) {
  while (peer->unacked != NULL) drop_first(peer);
  while (peer->ahead != NULL) {
    net_early_t *first = peer->ahead;
    peer->ahead = first->next;
    free_ahead(first);
  }
}
