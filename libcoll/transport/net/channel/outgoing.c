/* Frames that are stored: until a socket accepts them, and until the peer acknowledges them. */
#include <string.h>

#include "transport/net/channel/state.h"

static void lend(net_outgoing_t *outgoing, const void *payload) {
  net_channels_t *all = outgoing->peer->all;
  outgoing->base.payload = (char *)(uintptr_t)payload; /* which is only read */
  outgoing->next_lent = all->lent;
  outgoing->lent_link = &all->lent;
  if (all->lent != NULL) all->lent->lent_link = &outgoing->next_lent;
  all->lent = outgoing;
}

static void end_loan(net_outgoing_t *outgoing) {
  *outgoing->lent_link = outgoing->next_lent;
  if (outgoing->next_lent != NULL) outgoing->next_lent->lent_link = outgoing->lent_link;
  outgoing->lent_link = NULL;
}

coll_status_t net_outgoing_create(net_peer_t *peer, const net_frame_t *frame, const void *payload,
                                  bool is_lent, net_outgoing_t **outgoing) {
  net_outgoing_t *made = net_block_get(peer->all, sizeof *made + (is_lent ? 0 : frame->bytes));
  if (made == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message to rank %d of %u bytes",
                     peer->rank, (unsigned)frame->bytes);
  }
  *made = (net_outgoing_t){
      .base = {.payload = (char *)(made + 1), .frame = *frame}, .rail = -1, .peer = peer};
  if (is_lent) {
    lend(made, payload);
  } else if (frame->bytes > 0) {
    memcpy(made->base.payload, payload, frame->bytes);
  }
  *outgoing = made;
  return COLL_OK;
}

void net_outgoing_free(net_outgoing_t *outgoing) {
  net_channels_t *all = outgoing->peer->all;
  bool is_behind = outgoing->base.payload == (char *)(outgoing + 1);
  size_t bytes = outgoing->base.frame.bytes;
  if (outgoing->is_kept || outgoing->base.is_queued) return;
  if (outgoing->lent_link != NULL) {
    end_loan(outgoing);
  } else if (!is_behind) {
    net_block_put(all, outgoing->base.payload, bytes);
  }
  net_block_put(all, outgoing, sizeof *outgoing + (is_behind ? bytes : 0));
}

/* The frames that are kept for the peer are freed, too, as they read what was lent. */
static void give_up(net_peer_t *peer) {
  net_pair_give_up(peer->pair);
  net_order_free(peer);
}

void net_outgoing_return_lent(net_channels_t *channels) {
  while (channels->lent != NULL) {
    net_outgoing_t *first = channels->lent;
    char *own = net_block_get(channels, first->base.frame.bytes);
    if (own == NULL) {
      give_up(first->peer);
      continue;
    }
    memcpy(own, first->base.payload, first->base.frame.bytes);
    end_loan(first);
    first->base.payload = own;
  }
}
