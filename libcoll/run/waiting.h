/*
 * The waits of the tasks of a thread that sleeps, as its watch (watch/watch.h) checks and publishes
 * them: one per communicator.
 */
#ifndef RUN_WAITING_H
#define RUN_WAITING_H

#include "run/task.h"
#include "watch/watch.h"

typedef struct comm_waits {
  comm_task_t *tasks; /* the waits of these are published; NULL: none */
  comm_watch_t watch;
} comm_waits_t;

/* Called before the first sleep and after each sleep without progress. Fails as comm_watch_check
 * does. */
coll_status_t comm_waits_check(comm_waits_t *waits, comm_task_t *tasks);

/* The tasks made progress: withdraws the published waits. */
void comm_waits_end(comm_waits_t *waits);

#endif
