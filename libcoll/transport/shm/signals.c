/*
 * Signals: one ring per FIFO (layout.h). The receiver publishes its count of taken signals with
 * each signal, but checks only with every WAKE_AFTER-th whether the sender sleeps, because a sender
 * hardly ever waits for room.
 *
 * A sender that sleeps for room has SHM_SIGNALS signals not taken, and is woken with one of the
 * first WAKE_AFTER of them. So it never sleeps while fewer than PLAN_SIGNALS_MAX are left, and a
 * plan that needs room for no more than those always makes progress.
 */
#include "transport/shm/end.h"

#define WAKE_AFTER (SHM_SIGNALS / 2)

_Static_assert(SHM_SIGNALS - WAKE_AFTER >= PLAN_SIGNALS_MAX, "a sleeper is woken in time");
_Static_assert((SHM_SIGNALS & (SHM_SIGNALS - 1)) == 0, "slots follow from counts modulo 2^32");

/* Returns whether there is room for another signal. acquire: the peer has finished reading the
 * signals it has taken before we overwrite them. */
static bool has_signal_room(shm_fifo_t *fifo) {
  if (__builtin_expect(fifo->signals_sent != fifo->signals_full_at, true)) return true;
  uint32_t taken = atomic_load_explicit(&fifo->signals_out->taken, memory_order_acquire);
  fifo->signals_full_at = taken + SHM_SIGNALS;
  return fifo->signals_sent != fifo->signals_full_at;
}

coll_status_t shm_signals_send(transport_port_t *port, const flight_call_t *call, bool *done) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  shm_signal_t *slot = &fifo->signals_out->slots[fifo->signals_sent % SHM_SIGNALS];
  *done = has_signal_room(fifo);
  if (!*done) return COLL_OK;
  if (__builtin_expect(fifo->signals_sent == 0, false)) shm_end_mark_used(fifo);
  slot->call = *call;
  /* release: the call and all earlier writes of this thread are visible with the flag */
  atomic_store_explicit(&slot->sequence, ++fifo->signals_sent, memory_order_release);
  shm_end_notify(fifo);
  return COLL_OK;
}

coll_status_t shm_signals_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  const shm_signal_t *slot = shm_signals_next(fifo);
  *arrived = slot != NULL;
  if (slot == NULL) return COLL_OK;
  *call = slot->call;
  /* release: our reads are complete before the peer may overwrite the slot */
  atomic_store_explicit(&fifo->signals_in->taken, ++fifo->signals_received, memory_order_release);
  if (fifo->signals_received % WAKE_AFTER == 0) shm_wakeup_notify(fifo->peer);
  return COLL_OK;
}

bool shm_signals_pending(transport_port_t *port) {
  return shm_signals_next(shm_fifo_at(port)) != NULL;
}
