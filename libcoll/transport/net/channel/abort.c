/*
 * All ranks report one reason, although several may abort at the same time. A rank that aborts
 * sends its reason to all; where not all are connected, whoever hears of it first passes it on, as
 * it does the verdict. The lowest rank that is still there decides for the first that it knows,
 * and sends the verdict to all. Where it is silent, for it makes no calls, the next one decides
 * after a while.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/net/channel/state.h"

#define VERDICT_NS 300000000u

/* Of ranks that this one is not connected with, which may have left long ago, so many count. */
#define UNKNOWN_MAX 5

/* The ranks that decide before this one. */
static int count_lower(const net_channels_t *channels) {
  int count = 0, unknown = 0;
  for (int rank = 0; rank < channels->transport->rank; rank++) {
    const net_peer_t *peer = &channels->peers[rank];
    if (peer->pair->state != TRANSPORT_PEER_HERE) continue;
    if (net_pair_is_open(peer->pair))
      count++;
    else
      unknown++;
  }
  return count + (unknown < UNKNOWN_MAX ? unknown : UNKNOWN_MAX);
}

static void tell(net_peer_t *peer, net_kind_t kind) {
  const transport_reason_t *reason = &peer->all->reason;
  const net_frame_t frame = {.kind = (uint8_t)kind, .bytes = sizeof *reason};
  if (net_pair_is_open(peer->pair)) (void)net_order_send(peer, &frame, reason, false);
}

/* A peer that cannot be told finds out that this rank has left. */
static void broadcast(net_channels_t *channels, net_kind_t kind) {
  for (int rank = 0; rank < channels->transport->size; rank++) tell(&channels->peers[rank], kind);
}

void net_abort_tell(net_peer_t *peer) {
  if (peer->all->decided)
    tell(peer, NET_VERDICT);
  else if (peer->all->proposed)
    tell(peer, NET_PROPOSE);
}

void net_abort_wake(const net_channels_t *channels) {
  uint64_t one = 1;
  (void)!write(channels->wakeup, &one, sizeof one);
}

/* release: pairs with readers of abort_word in other threads. */
static void stop(net_channels_t *channels) {
  atomic_store_explicit(&channels->aborted, 1, memory_order_release);
  net_abort_wake(channels);
}

/* A rank has decided. */
static void decide(net_channels_t *channels, const transport_reason_t *reason) {
  if (channels->decided) return;
  channels->decided = true;
  channels->reason = *reason;
  broadcast(channels, NET_VERDICT);
  stop(channels);
}

void net_abort_propose(net_channels_t *channels, int from, const transport_reason_t *reason) {
  if (channels->decided) return;
  if (!channels->proposed) {
    channels->proposed = true;
    channels->proposed_ns = base_clock_now_ns();
    channels->reason = *reason;
    if (from == channels->transport->rank || !channels->pairs->is_mesh)
      broadcast(channels, NET_PROPOSE);
    stop(channels);
  }
  net_abort_check(channels, false);
}

void net_abort_check(net_channels_t *channels, bool now) {
  if (!channels->proposed || channels->decided) return;
  uint64_t waited_ns = base_clock_now_ns() - channels->proposed_ns;
  int lower = count_lower(channels);
  if (now || lower == 0 || waited_ns > VERDICT_NS * (uint64_t)lower) {
    const transport_reason_t reason = channels->reason;
    decide(channels, &reason);
  }
}

coll_status_t net_abort_accept(net_peer_t *peer, net_kind_t kind, const char *payload) {
  transport_reason_t reason;
  memcpy(&reason, payload, sizeof reason);
  reason.text[sizeof reason.text - 1] = '\0';
  if (reason.failed_rank < 0 || reason.failed_rank >= peer->all->transport->size) {
    return COLL_ERROR_INVALID;
  }
  if (kind == NET_PROPOSE) net_abort_propose(peer->all, peer->rank, &reason);
  if (kind == NET_VERDICT) decide(peer->all, &reason);
  return COLL_OK;
}
