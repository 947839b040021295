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
#include "transport/tcp/end.h"

#define SPREAD_BYTES 8192u /* of payloads from which the rail is chosen by load */
/* A rail that became silent gets no long frames for a second, then two, and so on: on its way may
 * be a hop through which only short packets pass. */
#define DISTRUST_NS UINT64_C(1000000000)
#define DISTRUST_DOUBLINGS_MAX 6
#define UNTOLD_FRAMES 64u /* after which the peer is told what has arrived; or TCP_UNTOLD_BYTES */

/* Aborts do not wait for what was lost on the way. */
static bool is_numbered(const tcp_frame_t *frame) {
  return frame->kind != TCP_PROPOSE && frame->kind != TCP_VERDICT && frame->kind != TCP_RECEIVED;
}

/* ---- sending --------------------------------------------------------------------------------*/

/* Bytes that were sent and did not reach the peer's host. */
static size_t load_of(const tcp_rail_t *rail) {
  int queued = 0;
  if (ioctl(rail->fd, SIOCOUTQ, &queued) != 0) return SIZE_MAX;
  return (size_t)queued + rail->output_bytes - rail->written;
}

static bool is_distrusted(const tcp_rail_t *rail) {
  int doublings = rail->silences - 1;
  if (rail->silences == 0) return false;
  if (doublings > DISTRUST_DOUBLINGS_MAX) doublings = DISTRUST_DOUBLINGS_MAX;
  return base_clock_now_ns() < rail->silent_ns + (DISTRUST_NS << doublings);
}

/* NULL: none is connected and accepts something. */
static tcp_rail_t *choose_rail(const tcp_peer_t *peer, size_t bytes) {
  tcp_rail_t *best = NULL;
  size_t least = SIZE_MAX;
  for (int i = 0; i < peer->rail_count; i++) {
    tcp_rail_t *rail = &peer->rails[i];
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

static void note_told(tcp_peer_t *peer, tcp_frame_t *frame) {
  frame->received = peer->told = peer->received;
  peer->untold_bytes = 0;
}

static coll_status_t send_by(tcp_rail_t *rail, tcp_frame_t *frame, const void *payload,
                             bool is_lent) {
  note_told(rail->peer, frame);
  return tcp_stream_send(rail, frame, payload, is_lent);
}

static coll_status_t keep(tcp_peer_t *peer, const tcp_frame_t *frame, const void *payload,
                          bool is_lent, tcp_outgoing_t **kept) {
  COLL_TRY(tcp_outgoing_create(peer, frame, payload, is_lent, kept));
  if (peer->unacked == NULL) peer->unacked_end = &peer->unacked;
  (*kept)->is_kept = true;
  *peer->unacked_end = *kept;
  peer->unacked_end = &(*kept)->next;
  return COLL_OK;
}

/* The first that is kept no longer is. */
static void drop_first(tcp_peer_t *peer) {
  tcp_outgoing_t *first = peer->unacked;
  peer->unacked = first->next;
  first->is_kept = false;
  tcp_outgoing_free(first);
}

static void send_kept(tcp_rail_t *rail, tcp_outgoing_t *kept) {
  kept->rail = rail->index;
  note_told(rail->peer, &kept->frame);
  tcp_stream_queue(rail, kept);
}

coll_status_t tcp_order_send(tcp_peer_t *peer, const tcp_frame_t *frame, const void *payload,
                             bool is_lent) {
  tcp_frame_t sent = *frame;
  tcp_rail_t *rail = choose_rail(peer, frame->bytes);
  tcp_outgoing_t *kept = NULL;
  if (!tcp_peer_is_within_reach(peer)) return COLL_OK;
  if (!is_numbered(frame)) return rail != NULL ? send_by(rail, &sent, payload, is_lent) : COLL_OK;
  bool is_pending = tcp_peer_is_pending(peer);
  if (rail == NULL && !is_pending && !peer->recovers) return COLL_OK;
  sent.number = peer->sent;
  if (is_pending) COLL_TRY(tcp_end_ask(peer));
  if (rail == NULL || peer->recovers) COLL_TRY(keep(peer, &sent, payload, is_lent, &kept));
  peer->sent++;
  if (rail == NULL) return COLL_OK;
  if (kept == NULL) return send_by(rail, &sent, payload, is_lent);
  send_kept(rail, kept);
  return COLL_OK;
}

void tcp_order_open(tcp_peer_t *peer) {
  for (tcp_outgoing_t *each = peer->unacked, *next; each != NULL; each = next) {
    next = each->next;
    if (each->rail >= 0) continue;
    tcp_rail_t *rail = choose_rail(peer, each->frame.bytes);
    if (rail == NULL) return;
    send_kept(rail, each);
    if (!peer->recovers) drop_first(peer);
  }
}

void tcp_order_forget(const tcp_rail_t *rail) {
  for (tcp_outgoing_t *each = rail->peer->unacked; each != NULL; each = each->next) {
    if (each->rail == rail->index) each->rail = -1;
  }
}

bool tcp_order_is_waiting(const tcp_peer_t *peer) {
  return peer->unacked != NULL && !tcp_peer_is_open(peer);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* The peer has received so many frames; a frame that comes late may say less than one before. */
static coll_status_t accept_received(tcp_peer_t *peer, uint32_t received) {
  uint32_t more = received - peer->acked;
  if (more > INT32_MAX) return COLL_OK;
  if (more > peer->sent - peer->acked) return COLL_ERROR_INVALID;
  peer->acked = received;
  while (peer->unacked != NULL && peer->unacked->frame.number - received > INT32_MAX)
    drop_first(peer);
  return COLL_OK;
}

static coll_status_t tell_received(tcp_peer_t *peer) {
  bool is_due =
      peer->received - peer->told >= UNTOLD_FRAMES || peer->untold_bytes >= TCP_UNTOLD_BYTES;
  const tcp_frame_t frame = {.kind = TCP_RECEIVED};
  return peer->recovers && is_due ? tcp_order_send(peer, &frame, NULL, false) : COLL_OK;
}

static void free_ahead(tcp_early_t *ahead) {
  tcp_message_release(ahead->message);
  free(ahead);
}

static coll_status_t keep_ahead(tcp_peer_t *peer, const tcp_frame_t *frame,
                                tcp_message_t *message) {
  tcp_early_t *made = NULL, **place = &peer->ahead;
  coll_status_t status = base_alloc(1, sizeof *made, "a frame", (void **)&made);
  if (status != COLL_OK) {
    tcp_message_release(message);
    return status;
  }
  *made = (tcp_early_t){.frame = *frame, .message = message};
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

static void note_received(tcp_peer_t *peer, const tcp_frame_t *frame) {
  peer->received++;
  peer->untold_bytes += frame->bytes;
}

/* Those for which a frame was missing. */
static coll_status_t accept_ahead(tcp_peer_t *peer) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK && !peer->is_closed && peer->ahead != NULL &&
         peer->ahead->frame.number == peer->received) {
    tcp_early_t *first = peer->ahead;
    peer->ahead = first->next;
    note_received(peer, &first->frame);
    status = tcp_fifo_accept(peer, &first->frame, first->message);
    free(first);
  }
  return status;
}

bool tcp_order_is_next(const tcp_rail_t *rail) {
  return rail->frame.number == rail->peer->received;
}

coll_status_t tcp_order_accept(tcp_rail_t *rail, tcp_message_t *payload, bool is_posted) {
  tcp_peer_t *peer = rail->peer;
  const tcp_frame_t *frame = &rail->frame;
  coll_status_t status = accept_received(peer, frame->received);
  bool is_next = !is_numbered(frame) || tcp_order_is_next(rail);
  bool is_late = frame->number - peer->received > INT32_MAX;
  if (status != COLL_OK || (!is_next && is_late)) {
    tcp_message_release(payload);
    return status;
  }
  if (!is_next) return keep_ahead(peer, frame, payload);
  if (!is_numbered(frame)) return tcp_fifo_accept(peer, frame, payload);
  note_received(peer, frame);
  COLL_TRY(is_posted ? tcp_fifo_accept_posted(peer, frame) : tcp_fifo_accept(peer, frame, payload));
  COLL_TRY(accept_ahead(peer));
  return tell_received(peer);
}

void tcp_order_free(tcp_peer_t *peer) {
  while (peer->unacked != NULL) drop_first(peer);
  while (peer->ahead != NULL) {
    tcp_early_t *first = peer->ahead;
    peer->ahead = first->next;
    free_ahead(first);
  }
}
