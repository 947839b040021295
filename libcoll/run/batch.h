/*
 * Runs calls. A batch is one call, or the calls of a group, which the calling thread progresses
 * together until all are done.
 */
#ifndef RUN_BATCH_H
#define RUN_BATCH_H

#include "run/call.h"

typedef struct comm_ticket {
  struct coll_comm *comm;
  uint64_t number;
  run_join_t *join; /* as in run_call_t */
  bool combines;    /* its lock is taken by run_combine_take (combine.h) */
  bool released;    /* all calls on this communicator are complete and its lock is released */
} comm_ticket_t;

typedef struct run_batch {
  run_call_t *calls; /* owned */
  size_t call_count;
  comm_ticket_t *tickets; /* owned: one per communicator of the calls */
  size_t ticket_count;
} run_batch_t;

/* Makes a batch of copies of `count` calls, at least one. The caller owns the calls, and may free
 * the batch by run_batch_discard, until it calls run_batch_order. */
coll_status_t run_batch_create(const run_call_t calls[], size_t count, run_batch_t *batch);
void run_batch_discard(run_batch_t *batch);

/* Takes over the calls with the memory they own, and draws a ticket on every communicator they use,
 * which fixes their order among all calls on these communicators. */
void run_batch_order(run_batch_t *batch);

/* Takes the locks in ticket order, runs the calls and frees the batch. Calls with a join begin when
 * it is open, and end it. On one communicator,
 * collectives run one after the other; so do sends to one peer, and receives from one peer.
 * Everything else runs concurrently. A failure ends every communicator that has incomplete calls.
 * in_background: the thread shares its core with a computing thread, so it sleeps early when it
 * waits. */
coll_status_t run_batch_run(run_batch_t *batch, bool in_background);

/* Drops calls that were announced to this room but cannot run. This rank is then out of step with
 * its peers, so every communicator of the calls is ended with `status` and the thread's last error.
 * Joins of the batch are ended with it too; those of run_calls_drop are not.
 * Frees the batch, or the memory that the calls own. Takes the locks, so the caller must not hold a
 * lock that earlier calls may need. */
void run_batch_drop(run_batch_t *batch, coll_status_t status);
void run_calls_drop(const run_call_t calls[], size_t count, coll_status_t status);

/* Runs the calls of a group in the caller's thread: a batch, which allocates nothing for no more
 * than RUN_FEW_CALLS. Takes over the memory that the calls own. COLL_ERROR_MEMORY: they are
 * dropped. */
#define RUN_FEW_CALLS 8
coll_status_t run_calls_run(run_call_t calls[], size_t count);

/* Runs one call: the same as a batch of one, but allocates nothing. */
coll_status_t run_call_run(const run_call_t *call);

/* Completes a call whose cached run has begun as the communicator's latest collective, or has
 * failed with `status`. The caller holds the lock. */
BASE_APART coll_status_t run_call_resume(const run_call_t *call, comm_cache_entry_t *entry,
                                         coll_status_t status);

#endif
