/*
 * The classic store-then-load race (publish, then look for a sleeper; announce sleep, then look for
 * news) needs a full barrier on both sides. The publisher's side is hot, so the sleeper pays for
 * both with membarrier(2), which runs a full barrier on every core that executes a registered
 * process. Where the kernel lacks it, sleeps are cut so short that a missed wake costs little.
 */
#include "transport/shm/park.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLIND_SLEEP_NS 200000u

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static bool has_membarrier; /* written once under `prepared` */

static long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

static void prepare(void) {
  has_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void shm_park_prepare(void) {
  pthread_once(&prepared, prepare);
}

void shm_park_arm(shm_control_t *own, uint32_t *seen) {
  *seen = atomic_load_explicit(&own->doorbell, memory_order_acquire);
  atomic_store_explicit(&own->sleeping, 1, memory_order_seq_cst);
  if (has_membarrier) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void shm_park_sleep(shm_control_t *own, uint32_t seen, uint64_t timeout_ns) {
  if (!has_membarrier && timeout_ns > BLIND_SLEEP_NS) timeout_ns = BLIND_SLEEP_NS;
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};
  syscall(SYS_futex, &own->doorbell, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

void shm_park_disarm(shm_control_t *own) {
  atomic_store_explicit(&own->sleeping, 0, memory_order_relaxed);
}

void shm_park_wake(shm_control_t *peer) {
  atomic_fetch_add_explicit(&peer->doorbell, 1, memory_order_release);
  syscall(SYS_futex, &peer->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}
