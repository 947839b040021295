/*
 * Signals: a ring of them per FIFO (layout.h). The waiting side tells with each signal how many it
 * has taken, but looks only with every WAKE_AFTER-th whether the signaller sleeps, which it hardly
 * ever does. One that sleeps for room left SHM_SIGNALS to be taken, and is woken with one of the
 * first WAKE_AFTER of them. So it never sleeps while fewer than PLAN_SIGNALS_MAX are left, and a
 * plan that needs no more than those finds the ring as good as one that tells of every place.
 */
#include "transport/shm/end.h"

#define WAKE_AFTER (SHM_SIGNALS / 2)

_Static_assert(SHM_SIGNALS - WAKE_AFTER >= PLAN_SIGNALS_MAX, "a sleeper is woken in time");
_Static_assert((SHM_SIGNALS & (SHM_SIGNALS - 1)) == 0, "slots follow from counts modulo 2^32");

/* Whether there is room for another signal. acquire: the peer has read what it has taken before we
 * write over it. */
static bool has_signal_room(shm_fifo_t *fifo) {
  if (__builtin_expect(fifo->signaled != fifo->signals_full_at, true)) return true;
  uint32_t taken = atomic_load_explicit(&fifo->signals_out->taken, memory_order_acquire);
  fifo->signals_full_at = taken + SHM_SIGNALS;
  return fifo->signaled != fifo->signals_full_at;
}

coll_status_t shm_signals_give(transport_port_t *port, const flight_call_t *call, bool *done) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  shm_signal_t *slot = &fifo->signals_out->slots[fifo->signaled % SHM_SIGNALS];
  *done = has_signal_room(fifo);
  if (!*done) return COLL_OK;
  if (__builtin_expect(fifo->signaled == 0, false)) shm_end_note_used(fifo);
  slot->call = *call;
  /* release: the call, and all that this thread has written, is there once the flag is */
  atomic_store_explicit(&slot->sequence, ++fifo->signaled, memory_order_release);
  shm_end_announce(fifo);
  return COLL_OK;
}

coll_status_t shm_signals_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  const shm_signal_t *slot = shm_signals_next(fifo);
  *arrived = slot != NULL;
  if (slot == NULL) return COLL_OK;
  *call = slot->call;
  /* release: our reads are over before the peer may write over the slot */
  atomic_store_explicit(&fifo->signals_in->taken, ++fifo->waited, memory_order_release);
  if (fifo->waited % WAKE_AFTER == 0) shm_park_ring(fifo->peer);
  return COLL_OK;
}

bool shm_signals_has(transport_port_t *port) {
  return shm_signals_next(shm_fifo_at(port)) != NULL;
}
