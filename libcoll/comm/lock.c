/* Waiting for the ticket lock: yields the core for a while, then sleeps between polls. */
#include "comm/lock.h"

#include <sched.h>

#include "base/clock.h"

#define LOCK_YIELDS 100
#define LOCK_SLEEP_NS 50000u

void comm_lock_take(struct coll_comm *comm, uint64_t ticket) {
  for (int polls = 0; !comm_lock_is_mine(comm, ticket); polls++) {
    if (polls < LOCK_YIELDS) {
      sched_yield();
    } else {
      base_clock_sleep_ns(LOCK_SLEEP_NS);
    }
  }
}
