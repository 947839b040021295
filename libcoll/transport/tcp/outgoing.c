/* Frames that are stored: until a socket accepts them, and until the peer acknowledges them. */
#include <string.h>

#include "transport/tcp/end.h"

coll_status_t tcp_outgoing_create(tcp_peer_t *peer, const tcp_frame_t *frame, const void *payload,
                                  tcp_outgoing_t **outgoing) {
  tcp_outgoing_t *made = tcp_block_get(peer->end, sizeof *made + frame->bytes);
  if (made == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message to rank %d of %u bytes",
                     peer->rank, (unsigned)frame->bytes);
  }
  *made = (tcp_outgoing_t){.rail = -1, .frame = *frame};
  if (frame->bytes > 0) memcpy(made->payload, payload, frame->bytes);
  *outgoing = made;
  return COLL_OK;
}

void tcp_outgoing_release(tcp_t *end, tcp_outgoing_t *outgoing) {
  if (outgoing->is_kept || outgoing->is_queued) return;
  tcp_block_put(end, outgoing, sizeof *outgoing + outgoing->frame.bytes);
}
