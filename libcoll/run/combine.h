/*
 * Sends and receives that several threads make on one communicator. A thread that waits in one
 * holds the ticket lock, and what its peer waits for may be what another thread has to send. So the
 * holder also runs the sends and receives of threads whose tickets follow its own: they publish
 * their calls and wait. When its own calls are complete, the first of these threads goes on with
 * the rest. This is flat combining (Hendler, Incze, Shavit, Tzafrir, SPAA 2010).
 *
 * Collectives are not combined: they wait for all earlier calls, and later calls wait for them.
 */
#ifndef RUN_COMBINE_H
#define RUN_COMBINE_H

#include "comm/lock.h"
#include "run/wait.h"

/* The calls of a batch that may be combined: sends and receives on one communicator, which wait for
 * nothing but its lock. */
typedef struct comm_combinable {
  run_task_t *first, *last;
  uint64_t ticket;
} comm_combinable_t;

/* Blocks until this thread holds the lock, or another one has completed the calls. With the lock,
 * calls->ticket is the one that is served, and tasks may be under way already. */
void run_combine_take(comm_combinable_t *calls, run_wait_t *wait, bool *complete);

/* Whether there are calls of other threads to run, or to look at. Called by the holder. */
BASE_INLINE bool run_combine_has_calls(const struct coll_comm *comm) {
  return comm->combine.combined != NULL || comm->combine.waiting != NULL ||
         atomic_load_explicit(&comm->combine.arrivals, memory_order_relaxed) != NULL;
}

/* Runs calls of other threads as far as they get. own_last: the last task of the holder's own
 * calls. A failure is that of the communicator, and so of all calls. */
coll_status_t run_combine_advance(run_task_t *own_last, run_wait_t *wait, bool *moved);

/* Releases the lock that run_combine_take took: to the first thread whose calls are not complete,
 * or to the next ticket. */
void run_combine_release(struct coll_comm *comm);

/* This thread has made the communicator, for its own calls: if another one is the first to send or
 * receive, there are two that use it. */
void run_combine_note_maker(struct coll_comm *comm);

/* Whether a call that another thread has yet to make may end the wait of the holder, which has
 * lasted for waited_ns. A process of several threads, of which one alone has used the communicator
 * so far, is given time for that. */
bool run_combine_may_be_ended(const struct coll_comm *comm, uint64_t waited_ns);

#endif
