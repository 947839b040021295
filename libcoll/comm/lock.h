/*
 * Turns on a communicator: whoever makes calls takes a ticket, and tickets are served in order, so
 * that calls from several threads and streams have one order. A ticket lock with the ticket drawn
 * ahead of time.
 */
#ifndef COMM_LOCK_H
#define COMM_LOCK_H

#include "comm/comm.h"

static inline uint64_t comm_lock_ticket(struct coll_comm *comm) {
  return atomic_fetch_add_explicit(&comm->next_ticket, 1, memory_order_relaxed);
}

/* acquire: everything the last holder did to the communicator is seen */
static inline bool comm_lock_is_mine(struct coll_comm *comm, uint64_t ticket) {
  return atomic_load_explicit(&comm->turn, memory_order_acquire) == ticket;
}

/* The turn at once, if nobody has it or waits for it. */
BASE_INLINE bool comm_lock_try(struct coll_comm *comm) {
  /* acquire: as above; the turn is the next ticket as well, if all before are served */
  uint64_t next = atomic_load_explicit(&comm->turn, memory_order_acquire);
  return atomic_compare_exchange_strong_explicit(&comm->next_ticket, &next, next + 1,
                                                 memory_order_relaxed, memory_order_relaxed);
}

/* The ticket of whose turn it is, for that thread. */
BASE_INLINE uint64_t comm_lock_ticket_served(const struct coll_comm *comm) {
  return atomic_load_explicit(&comm->turn, memory_order_relaxed);
}

/* By the thread whose turn it is; then another's. */
BASE_INLINE void comm_lock_release(struct coll_comm *comm) {
  atomic_store_explicit(&comm->turn, comm_lock_ticket_served(comm) + 1, memory_order_release);
}

/* Blocks until the turn comes. */
void comm_lock_take(struct coll_comm *comm, uint64_t ticket);

#endif
