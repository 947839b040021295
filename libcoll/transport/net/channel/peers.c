/* What a rank has to do with its peers, from creation to the last frames. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "transport/net/channel/state.h"

static coll_status_t allocate(net_channels_t *channels, size_t size) {
  COLL_TRY(base_alloc(size, sizeof *channels->peers, "connections", (void **)&channels->peers));
  for (size_t rank = 0; rank < size; rank++) {
    channels->peers[rank] =
        (net_peer_t){.all = channels, .pair = &channels->pairs->pairs[rank], .rank = (int)rank};
  }
  return base_alloc(1, sizeof *channels->recorder, "a flight recorder",
                    (void **)&channels->recorder);
}

coll_status_t net_channels_init(net_channels_t *channels) {
  COLL_TRY(allocate(channels, (size_t)channels->transport->size));
  channels->published = channels->recorder;
  channels->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (channels->wakeup >= 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: nothing to wait on for its connections",
                         channels->transport->rank);
}

void net_channels_free(net_channels_t *channels) {
  if (channels->wakeup >= 0) close(channels->wakeup);
  net_blocks_free(channels);
  free(channels->recorder);
  free(channels->peers);
}

void net_peer_say_leave(net_peer_t *peer) {
  const net_frame_t frame = {.kind = NET_LEAVE};
  for (int channel = 0; channel < TRANSPORT_CHANNELS_MAX; channel++) {
    net_fifo_t *fifo = peer->fifos[channel];
    if (fifo != NULL && fifo->used) (void)net_fifo_credit(fifo);
  }
  net_record_publish(peer); /* so that the peer sees which calls this rank has completed */
  (void)net_route_send(peer, &frame, NULL, false);
}

void net_peer_free(net_peer_t *peer) {
  for (int channel = 0; channel < TRANSPORT_CHANNELS_MAX; channel++) {
    net_fifo_free(peer->fifos[channel]);
  }
  net_route_free(peer);
  net_order_free(peer);
  free(peer->recorder);
}

/* ---- what the connections call --------------------------------------------------------------*/

static net_peer_t *peer_of(const net_pairs_t *pairs, int rank) {
  return &((net_channels_t *)pairs->owner)->peers[rank];
}

/* Neither an abort nor what has been received is told again by itself. */
static void opened(net_pairs_t *pairs, int rank, bool is_new) {
  net_peer_t *peer = peer_of(pairs, rank);
  net_order_open(peer);
  if (is_new) (void)net_order_tell(peer);
  net_abort_tell(peer);
  if (is_new && peer->all->is_leaving && !peer->has_left_by_socket) net_peer_say_leave(peer);
}

static void closed(net_pairs_t *pairs, int rank, int rail) {
  net_order_forget(peer_of(pairs, rank), rail);
}

static void ending(net_pairs_t *pairs, int rank) {
  net_route_end(peer_of(pairs, rank));
}

static void ended(net_pairs_t *pairs, int rank) {
  net_peer_t *peer = peer_of(pairs, rank);
  wire_t *wire = peer->all->wire;
  if (peer->has_wire) wire->ops->disconnect(wire, rank);
  net_note_arrival(peer->all);
}

const net_pairs_owner_ops_t net_channels_of_pairs = {
    .opened = opened, .closed = closed, .ending = ending, .ended = ended};
