/*
 * How a rank sleeps until a peer has news for it, without making the peer pay for it while nobody
 * sleeps: the sender only looks at a flag that is almost always clear and in its cache.
 */
#ifndef TRANSPORT_SHM_PARK_H
#define TRANSPORT_SHM_PARK_H

#include <stdint.h>

#include "transport/shm/layout.h"

/* Before a process's first park; asks whether the kernel offers membarrier. Idempotent. */
void shm_park_prepare(void);

void shm_park_arm(shm_control_t *own, uint32_t *seen);
void shm_park_sleep(shm_control_t *own, uint32_t seen, uint64_t timeout_ns);
void shm_park_disarm(shm_control_t *own);

/* Wakes the owner of `peer`. */
void shm_park_wake(shm_control_t *peer);

/* After publishing something for the owner of `peer`: wakes it if it sleeps. */
static inline void shm_park_ring(shm_control_t *peer) {
  atomic_signal_fence(memory_order_seq_cst); /* keeps the compiler from moving the look up */
  if (__builtin_expect(atomic_load_explicit(&peer->sleeping, memory_order_relaxed) != 0, false)) {
    shm_park_wake(peer);
  }
}

#endif
