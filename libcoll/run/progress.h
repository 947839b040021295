/*
 * The callback of coll_comm_set_progress: a thread that waits in a call of the communicator calls
 * it at intervals. The thread then holds the ticket lock of that communicator, or waits for it, and
 * no other lock. So calls of other communicators may be made from the callback, and calls of this
 * one would wait for ever.
 */
#ifndef RUN_PROGRESS_H
#define RUN_PROGRESS_H

#include "run/task.h"

/* Communicators of this process that have a callback. */
extern _Atomic int run_progress_count;

/* Whether a task that is not done belongs to a communicator with a callback. */
bool run_progress_wanted_by(const run_task_t *tasks);

BASE_INLINE bool run_progress_is_wanted(const run_task_t *tasks) {
  return atomic_load_explicit(&run_progress_count, memory_order_relaxed) > 0 &&
         run_progress_wanted_by(tasks);
}

/* Calls the callbacks that are due, of the communicators of all tasks that are not done. Of several
 * threads, one calls the callback of a communicator. The transports are not armed. */
void run_progress_call(const run_task_t *tasks);

/* The waits from whose callbacks this thread is called, innermost first; NULL: none. */
typedef struct run_progress_wait {
  const struct run_progress_wait *outer;
  const run_task_t *tasks;
} run_progress_wait_t;

extern _Thread_local const run_progress_wait_t *run_progress_waits
    __attribute__((tls_model("initial-exec")));

bool run_progress_waits_on(const struct coll_comm *comm);

/* Whether this thread is in a callback and waits, outside it, in a call of the communicator. */
BASE_INLINE bool run_progress_is_inside(const struct coll_comm *comm) {
  return run_progress_waits != NULL && run_progress_waits_on(comm);
}

#define COMM_PROGRESS_INSIDE                                                                \
  "called from a progress callback while this thread waits in a call of the communicator; " \
  "the callback may use other communicators only"

/* Sets the callback; NULL: none. Waits until no other thread runs the former one. */
void run_progress_set(struct coll_comm *comm, void (*callback)(void *context), void *context);

#endif
