/*
 * All ranks report one reason, although several may abort at the same time. A rank that aborts
 * sends its reason to all; where not all are connected, whoever hears of it first passes it on, as
 * it does the verdict. The lowest rank that is still there decides for the first that it knows,
 * and sends the verdict to all. Where it is silent, for it makes no calls, the next one decides
 * after a while.
 */
#include <unistd.h>

#include "base/clock.h"
#include "transport/net/end.h"

#define VERDICT_NS 300000000u

/* Of ranks that this one is not connected with, which may have left long ago, so many count. */
#define UNKNOWN_MAX 5

/* The ranks that decide before this one. */
static int count_lower(const net_t *end) {
  int count = 0, unknown = 0;
  for (int rank = 0; rank < end->transport.rank; rank++) {
    const net_peer_t *peer = &end->peers[rank];
    if (peer->state != TRANSPORT_PEER_HERE) continue;
    if (net_peer_is_open(peer))
      count++;
    else
      unknown++;
  }
  return count + (unknown < UNKNOWN_MAX ? unknown : UNKNOWN_MAX);
}

static void tell(net_peer_t *peer, net_kind_t kind) {
  const transport_reason_t *reason = &peer->end->reason;
  const net_frame_t frame = {.kind = (uint8_t)kind, .bytes = sizeof *reason};
  if (net_peer_is_open(peer)) (void)net_order_send(peer, &frame, reason, false);
}

/* A peer that cannot be told finds out that this rank has left. */
static void broadcast(net_t *end, net_kind_t kind) {
  for (int rank = 0; rank < end->transport.size; rank++) tell(&end->peers[rank], kind);
}

void net_abort_tell(net_peer_t *peer) {
  if (peer->end->decided)
    tell(peer, NET_VERDICT);
  else if (peer->end->proposed)
    tell(peer, NET_PROPOSE);
}

void net_abort_wake(const net_t *end) {
  uint64_t one = 1;
  (void)!write(end->wakeup, &one, sizeof one);
}

/* release: pairs with readers of abort_word in other threads. */
static void stop(net_t *end) {
  atomic_store_explicit(&end->aborted, 1, memory_order_release);
  net_abort_wake(end);
}

void net_abort_decide(net_t *end, const transport_reason_t *reason) {
  if (end->decided) return;
  end->decided = true;
  end->reason = *reason;
  broadcast(end, NET_VERDICT);
  stop(end);
}

void net_abort_propose(net_t *end, int from, const transport_reason_t *reason) {
  if (end->decided) return;
  if (!end->proposed) {
    end->proposed = true;
    end->proposed_ns = base_clock_now_ns();
    end->reason = *reason;
    if (from == end->transport.rank || !end->is_mesh) broadcast(end, NET_PROPOSE);
    stop(end);
  }
  net_abort_check(end, false);
}

void net_abort_check(net_t *end, bool now) {
  if (!end->proposed || end->decided) return;
  uint64_t waited_ns = base_clock_now_ns() - end->proposed_ns;
  int lower = count_lower(end);
  if (now || lower == 0 || waited_ns > VERDICT_NS * (uint64_t)lower) {
    const transport_reason_t reason = end->reason;
    net_abort_decide(end, &reason);
  }
}
