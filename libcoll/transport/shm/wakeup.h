/*
 * Lets a rank sleep on a futex until a peer sends to it. A sender pays only for reading the
 * receiver's `sleeping` flag, which is almost always 0 and in the sender's cache; it makes a system
 * call only if the flag is set.
 */
#ifndef TRANSPORT_SHM_WAKEUP_H
#define TRANSPORT_SHM_WAKEUP_H

#include <stdint.h>

#include "transport/shm/layout.h"

/* Registers the process for membarrier(2), if the kernel has it. Called before the first arm;
 * idempotent. */
void shm_wakeup_init(void);

void shm_wakeup_arm(shm_control_t *own, uint32_t *seen);
void shm_wakeup_sleep(shm_control_t *own, uint32_t seen, uint64_t timeout_ns);
void shm_wakeup_disarm(shm_control_t *own);

/* Wakes the owner of `peer`, whether it sleeps or not. */
void shm_wakeup_wake(shm_control_t *peer);

/* Called after a store that the owner of `peer` may wait for: wakes it if it sleeps. */
static inline void shm_wakeup_notify(shm_control_t *peer) {
  atomic_signal_fence(memory_order_seq_cst); /* keeps the compiler from moving the load of
                                                `sleeping` before the store */
  if (__builtin_expect(atomic_load_explicit(&peer->sleeping, memory_order_relaxed) != 0, false)) {
    shm_wakeup_wake(peer);
  }
}

#endif
