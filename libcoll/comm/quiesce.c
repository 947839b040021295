/* Polls, as communicators fail rarely, and their calls then return soon. */
#include "comm/quiesce.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "comm/lock.h"
#include "comm/process.h"

#define POLL_NS 100000u

static bool has_calls_under_way(struct coll_comm *comm) {
  if (atomic_load_explicit(comm->local->abort_word, memory_order_acquire) == 0) return false;
  uint64_t next = atomic_load_explicit(&comm->order.next_ticket, memory_order_relaxed);
  /* acquire: pairs with the release of the lock by the last call, after its stores */
  return atomic_load_explicit(&comm->order.now_serving, memory_order_acquire) != next;
}

static bool find_busy(struct coll_comm *comm, void *context) {
  bool *busy = context;
  *busy = has_calls_under_way(comm);
  return !*busy;
}

coll_status_t comm_quiesce(int rank, uint64_t timeout_ns) {
  uint64_t end_ns = base_clock_now_ns() + timeout_ns;
  for (;;) {
    bool busy = false;
    comm_process_each(find_busy, &busy);
    if (!busy) return COLL_OK;
    if (base_cancel_is_requested()) {
      return base_fail(COLL_ERROR_SYSTEM, "rank %d: %s", rank, base_cancel_why());
    }
    if (base_clock_now_ns() > end_ns) break;
    base_clock_sleep_ns(POLL_NS);
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: calls of a communicator that has failed are still under way in this "
                   "process: synchronize its streams before you create another communicator",
                   rank);
}
