/*
 * The race: a sender publishes and then reads `sleeping`; a receiver sets `sleeping` and then polls
 * once more. Without a full barrier between store and load on both sides, both may read old values
 * and the wake is lost. The sender is on the hot path, so the sleeper executes the barrier for
 * both, with membarrier(2), which runs a full barrier on every core that executes a registered
 * process. Without membarrier(2) sleeps are limited to BLIND_SLEEP_NS, so that a lost wake costs
 * little.
 */
#include "transport/shm/wakeup.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/deadline.h"

#define BLIND_SLEEP_NS 200000u

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static bool has_membarrier; /* written once, under `prepared` */

static long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

static void prepare(void) {
  has_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void shm_wakeup_init(void) {
  pthread_once(&prepared, prepare);
}

void shm_wakeup_arm(shm_control_t *own, uint32_t *seen) {
  *seen = atomic_load_explicit(&own->doorbell, memory_order_acquire);
  atomic_store_explicit(&own->sleeping, 1, memory_order_seq_cst);
  if (has_membarrier) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void shm_wakeup_sleep(shm_control_t *own, uint32_t seen, uint64_t timeout_ns) {
  if (!has_membarrier && timeout_ns > BLIND_SLEEP_NS) timeout_ns = BLIND_SLEEP_NS;
  struct timespec timeout = base_deadline_limit(timeout_ns);
  syscall(SYS_futex, &own->doorbell, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

void shm_wakeup_disarm(shm_control_t *own) {
  atomic_store_explicit(&own->sleeping, 0, memory_order_relaxed);
}

void shm_wakeup_wake(shm_control_t *peer) {
  atomic_fetch_add_explicit(&peer->doorbell, 1, memory_order_release);
  syscall(SYS_futex, &peer->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}
