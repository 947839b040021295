/* How a rank leaves or aborts a communicator, and what it can find out about peers that have. */
#include "transport/shm/end.h"
#include "transport/shm/presence.h"

bool shm_shutdown_pending_in(transport_port_t *port, flight_call_t *call) {
  const shm_fifo_t *fifo = shm_fifo_at(port);
  transport_head_t head;
  if (!shm_end_is_used(fifo)) return false;
  const shm_signal_t *signal = shm_signals_next(fifo);
  bool message = shm_incoming_poll(&fifo->in, &head) != NULL;
  if (message) *call = head.call;
  if (!message && signal != NULL) *call = signal->call;
  return message || signal != NULL;
}

bool shm_shutdown_pending_out(transport_port_t *port, flight_call_t *call) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  /* acquire: the peer's last acknowledgement is visible once `left` is */
  if (atomic_load_explicit(&fifo->peer->left, memory_order_acquire) == 0) return false;
  return fifo->out.sent > 0 && shm_outgoing_oldest_untaken(&fifo->out, call);
}

/* Whether the peer holds a lock, and in another process. */
static bool is_elsewhere(const shm_t *s, int peer) {
  if (!s->is_present) return false;
  /* acquire: it took the lock before */
  uint64_t process = atomic_load_explicit(
      &shm_layout_control(&s->layout, s->segment->base, peer)->process, memory_order_acquire);
  return process != 0 && process != s->process;
}

transport_peer_state_t shm_shutdown_peer_state(transport_t *t, int peer) {
  shm_t *s = shm_end_of(t);
  /* The lock is checked first: a peer that leaves sets `left` before it gives up its lock. */
  bool has_ended = is_elsewhere(s, peer) && shm_presence_has_ended(s->ranks, peer);
  if (atomic_load_explicit(&shm_end_control(s, peer)->left, memory_order_acquire) != 0) {
    return TRANSPORT_PEER_LEFT;
  }
  return has_ended ? TRANSPORT_PEER_LOST : TRANSPORT_PEER_HERE;
}

/* The reason is written before the head names its owner. Only the first thread of this rank writes,
 * because there is room for one reason. */
void shm_shutdown_abort(transport_t *t, const transport_reason_t *reason) {
  shm_t *s = shm_end_of(t);
  shm_record_t *own = shm_end_record(s, t->rank);
  uint32_t unset = 0;
  if (atomic_exchange_explicit(&own->reason_claimed, 1, memory_order_relaxed) != 0) return;
  own->reason = *reason;
  /* release: the reason is visible once the head names this rank */
  atomic_compare_exchange_strong_explicit(&shm_layout_head(s->segment->base)->aborted, &unset,
                                          (uint32_t)t->rank + 1, memory_order_release,
                                          memory_order_relaxed);
  /* this rank too: the thread that executes its calls may be asleep */
  for (int rank = 0; rank < t->size; rank++) shm_wakeup_notify(shm_end_control(s, rank));
}

bool shm_shutdown_aborted(transport_t *t, transport_reason_t *reason) {
  shm_t *s = shm_end_of(t);
  uint32_t word =
      atomic_load_explicit(&shm_layout_head(s->segment->base)->aborted, memory_order_acquire);
  if (word == 0) return false;
  *reason = shm_end_record(s, (int)word - 1)->reason;
  return true;
}

void shm_shutdown(shm_t *s) {
  transport_t *t = &s->transport;
  shm_channels_ack(s); /* so that senders know which messages were not taken */
  /* release: a rank that sees `left` sees what this rank has sent and acknowledged */
  atomic_store_explicit(&shm_end_control(s, t->rank)->left, 1, memory_order_release);
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) shm_wakeup_notify(shm_end_control(s, peer));
  }
  shm_passes_drop(s);
}
