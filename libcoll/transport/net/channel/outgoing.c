/* Frames that are stored: until a socket accepts them, and until the peer acknowledges them. */
#include <string.h>

#include "transport/net/end.h"

static void lend(net_outgoing_t *outgoing, const void *payload) {
  net_t *end = outgoing->peer->end;
  outgoing->payload = (char *)(uintptr_t)payload; /* which is only read */
  outgoing->next_lent = end->lent;
  outgoing->lent_link = &end->lent;
  if (end->lent != NULL) end->lent->lent_link = &outgoing->next_lent;
  end->lent = outgoing;
}

static void end_loan(net_outgoing_t *outgoing) {
  *outgoing->lent_link = outgoing->next_lent;
  if (outgoing->next_lent != NULL) outgoing->next_lent->lent_link = outgoing->lent_link;
  outgoing->lent_link = NULL;
}

coll_status_t net_outgoing_create(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                                  bool is_lent, net_outgoing_t **outgoing) {
  net_outgoing_t *made = net_block_get(peer->end, sizeof *made + (is_lent ? 0 : frame->bytes));
  if (made == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message to rank %d of %u bytes",
                     peer->rank, (unsigned)frame->bytes);
  }
  *made =
      (net_outgoing_t){.rail = -1, .peer = peer, .payload = (char *)(made + 1), .frame = *frame};
  if (is_lent) {
    lend(made, payload);
  } else if (frame->bytes > 0) {
    memcpy(made->payload, payload, frame->bytes);
  }
  *outgoing = made;
  return COLL_OK;
}

void net_outgoing_free(net_outgoing_t *outgoing) {
  net_t *end = outgoing->peer->end;
  bool is_behind = outgoing->payload == (char *)(outgoing + 1);
  size_t bytes = outgoing->frame.bytes;
  if (outgoing->is_kept || outgoing->is_queued) return;
  if (outgoing->lent_link != NULL) {
    end_loan(outgoing);
  } else if (!is_behind) {
    net_block_put(end, outgoing->payload, bytes);
  }
  net_block_put(end, outgoing, sizeof *outgoing + (is_behind ? bytes : 0));
}

/* The frames that are kept for the peer are freed, too, as they read what was lent. */
static void give_up(net_peer_t *peer) {
  net_route_close(peer);
  net_order_free(peer);
}

void net_outgoing_return_lent(net_t *end) {
  while (end->lent != NULL) {
    net_outgoing_t *first = end->lent;
    char *own = net_block_get(end, first->frame.bytes);
    if (own == NULL) {
      give_up(first->peer);
      continue;
    }
    memcpy(own, first->payload, first->frame.bytes);
    end_loan(first);
    first->payload = own;
  }
}
