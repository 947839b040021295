/*
 * Carrying calls out: a batch is one call, or those of a group, progressed together in the calling
 * thread until all are done.
 */
#ifndef COMM_BATCH_H
#define COMM_BATCH_H

#include "comm/call.h"

typedef struct comm_ticket {
  struct coll_comm *comm;
  uint64_t number;
  bool passed; /* the calls of this communicator are complete; it is the next batch's turn */
} comm_ticket_t;

typedef struct comm_batch {
  comm_call_t *calls; /* owned */
  size_t call_count;
  comm_ticket_t *tickets; /* owned: one per communicator that the calls name */
  size_t ticket_count;
} comm_batch_t;

/* Takes `count` calls, with what they own, and a ticket on every communicator they name, which
 * fixes their order among all calls of those communicators. On failure the calls are still the
 * caller's. */
coll_status_t comm_batch_create(const comm_call_t calls[], size_t count, comm_batch_t *batch);

/* Waits for the turns, carries the calls out and frees the batch. Collectives on one communicator
 * run one after the other, sends to one peer likewise, receives from one peer likewise; all else
 * concurrently. A failure finishes every communicator whose calls were not complete. in_background:
 * the thread shares its core with one that computes, so waiting takes as little of it as can be. */
coll_status_t comm_batch_run(comm_batch_t *batch, bool in_background);

/* Instead of running: the ranks would be out of step, so every communicator concerned is finished
 * with `status` and the thread's last error. Frees the batch, or what the calls own. Waits for the
 * turns, so the caller holds no lock that calls before these may need. */
void comm_batch_drop(comm_batch_t *batch, coll_status_t status);
void comm_calls_drop(const comm_call_t calls[], size_t count, coll_status_t status);

/* One call at once: the same as a batch of it, without allocating. */
coll_status_t comm_call_run(const comm_call_t *call);

/* The rest of it, by the thread whose turn it is, where the run that is prepared for it has begun
 * as the communicator's latest collective, or failed with `status`. */
BASE_APART coll_status_t comm_call_resume(const comm_call_t *call, comm_cache_entry_t *prepared,
                                          coll_status_t status);

#endif
