/*
 * How a thread waits while no task makes progress. It polls for a while, then yields the core
 * between polls, then sleeps in the kernel until a peer sends something. Between sleeps it checks
 * its peers (waiting.h). All the while it calls the progress callbacks of its calls' communicators
 * (progress.h).
 */
#ifndef RUN_WAIT_H
#define RUN_WAIT_H

#include "run/waiting.h"

typedef struct run_wait {
  bool in_background;   /* as passed to run_batch_run */
  bool has_begun;       /* a step was made since the last progress */
  int poll_count;       /* polls since the last progress */
  bool hint_is_current; /* the yield hint was read since the core was last yielded */
  int hint_polls_max;   /* polls before the next yield, from the hint */
  int hint_polls;       /* polls spent so since the last progress */
  bool armed; /* `transport` will wake this thread; one more poll is due before it sleeps */
  int naps;   /* short sleeps, because of a progress callback */
  uint64_t spinning_since_ns;    /* when it had polled a few times; 0: not yet */
  uint64_t yielding_since_ns;    /* when it began to yield; 0: not yet */
  transport_t *hinted_transport; /* gave the hint and published our progress; NULL: none */
  transport_t *transport;        /* wakes this thread */
  run_waits_t waits;
} run_wait_t;

void run_wait_end(run_wait_t *wait);

/* A task made progress: the next wait starts with polling again. */
static inline void run_wait_reset(run_wait_t *wait) {
  if (wait->has_begun) run_wait_end(wait);
}

/* None of the tasks, of which `tasks` is the first, made progress: waits a little. Fails as
 * run_waits_check does. */
coll_status_t run_wait_step(run_wait_t *wait, run_task_t *tasks);

#endif
