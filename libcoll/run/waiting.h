/*
 * The waits of the tasks of a thread that sleeps, as its watch (watch/watch.h) checks and publishes
 * them: one per communicator.
 */
#ifndef RUN_WAITING_H
#define RUN_WAITING_H

#include "run/task.h"
#include "watch/watch.h"

typedef struct run_waits {
  run_task_t *tasks; /* the waits of these are published; NULL: none */
  watch_t watch;
} run_waits_t;

/* Called before the first sleep and after each sleep without progress. Fails as watch_check
 * does. */
coll_status_t run_waits_check(run_waits_t *waits, run_task_t *tasks);

/* The tasks made progress: withdraws the published waits. */
void run_waits_end(run_waits_t *waits);

#endif
