/*
 * Adaptive sched_yield(). Each thread measures how long its recent yields took and how much CPU
 * time the ranks used meanwhile, and adjusts how often it polls before the next yield.
 */
#ifndef RUN_YIELD_H
#define RUN_YIELD_H

#include <stdbool.h>

#include "comm/comm.h"

/* The number of polls before the core is yielded: the communicator's spin_limit, or less if other
 * threads, such as ranks bound to the same core, ran during recent yields. */
int run_yield_polls(const struct coll_comm *comm);

/* Whether programs other than the ranks seem to compute on the ranks' cores. A yield to such a
 * program takes a time slice, some milliseconds; a thread that is woken from a sleep runs before
 * it. */
bool run_yield_is_costly(void);

/* Yields the core, by sched_yield() or, if transport is not NULL, by the transport's yield. */
void run_yield(const struct coll_comm *comm, transport_t *transport);

#endif
