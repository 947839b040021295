/*
 * All ranks report one reason, although several may abort at the same time. A rank that aborts
 * sends its reason to all. The lowest rank that is still there decides for the first that it knows,
 * and sends the verdict to all. Where it is silent, for it makes no calls, the others decide
 * without it.
 */
#include <unistd.h>

#include "base/clock.h"
#include "transport/tcp/end.h"

#define VERDICT_NS 500000000u

static bool decides(const tcp_t *end) {
  for (int rank = 0; rank < end->transport.rank; rank++) {
    if (end->peers[rank].state == TRANSPORT_PEER_HERE) return false;
  }
  return true;
}

/* A peer that cannot be told finds out that this rank has left. */
static void broadcast(tcp_t *end, tcp_kind_t kind) {
  const tcp_frame_t frame = {.kind = (uint8_t)kind, .bytes = sizeof end->reason};
  for (int rank = 0; rank < end->transport.size; rank++) {
    if (rank != end->transport.rank) (void)tcp_stream_send(&end->peers[rank], &frame, &end->reason);
  }
}

/* release: pairs with readers of abort_word in other threads. Ends a sleep of this rank too. */
static void stop(tcp_t *end) {
  uint64_t one = 1;
  atomic_store_explicit(&end->aborted, 1, memory_order_release);
  (void)!write(end->wakeup, &one, sizeof one);
}

void tcp_abort_decide(tcp_t *end, const transport_reason_t *reason) {
  if (end->decided) return;
  end->decided = true;
  end->reason = *reason;
  broadcast(end, TCP_VERDICT);
  stop(end);
}

void tcp_abort_propose(tcp_t *end, int from, const transport_reason_t *reason) {
  if (end->decided) return;
  if (!end->proposed) {
    end->proposed = true;
    end->proposed_ns = base_clock_now_ns();
    end->reason = *reason;
    if (from == end->transport.rank) broadcast(end, TCP_PROPOSE);
    stop(end);
  }
  tcp_abort_check(end, false);
}

void tcp_abort_check(tcp_t *end, bool now) {
  if (!end->proposed || end->decided) return;
  bool silent = base_clock_now_ns() - end->proposed_ns > VERDICT_NS;
  if (now || silent || decides(end)) {
    const transport_reason_t reason = end->reason;
    tcp_abort_decide(end, &reason);
  }
}
