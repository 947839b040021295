/*
 * The ticket lock of a communicator. Every call draws a ticket, and tickets are served in order, so
 * calls from several threads and streams have one order. A batch draws its ticket when it is queued
 * and takes the lock later.
 */
#ifndef COMM_LOCK_H
#define COMM_LOCK_H

#include "comm/comm.h"

static inline uint64_t comm_lock_ticket(struct coll_comm *comm) {
  return atomic_fetch_add_explicit(&comm->order.next_ticket, 1, memory_order_relaxed);
}

/* acquire: all writes of the previous holder to the communicator are visible */
static inline bool comm_lock_is_mine(struct coll_comm *comm, uint64_t ticket) {
  return atomic_load_explicit(&comm->order.now_serving, memory_order_acquire) == ticket;
}

/* Takes the lock if no thread holds it or waits for it. */
BASE_INLINE bool comm_lock_try(struct coll_comm *comm) {
  /* acquire: as above. If all earlier tickets are served, now_serving equals next_ticket */
  uint64_t next = atomic_load_explicit(&comm->order.now_serving, memory_order_acquire);
  return atomic_compare_exchange_strong_explicit(&comm->order.next_ticket, &next, next + 1,
                                                 memory_order_relaxed, memory_order_relaxed);
}

/* The ticket of the holder; called by the holder. */
BASE_INLINE uint64_t comm_lock_ticket_served(const struct coll_comm *comm) {
  return atomic_load_explicit(&comm->order.now_serving, memory_order_relaxed);
}

/* Releases the lock and serves the next ticket; called by the holder. */
BASE_INLINE void comm_lock_release(struct coll_comm *comm) {
  atomic_store_explicit(&comm->order.now_serving, comm_lock_ticket_served(comm) + 1,
                        memory_order_release);
}

/* Blocks until `ticket` is served. */
void comm_lock_take(struct coll_comm *comm, uint64_t ticket);

#endif
