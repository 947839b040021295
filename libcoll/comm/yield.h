/*
 * Giving up the core while there is no news: what became of it lately tells whether to do it again,
 * and how soon. Every thread learns that for itself.
 */
#ifndef COMM_YIELD_H
#define COMM_YIELD_H

#include <stdbool.h>

#include "comm/comm.h"

/* How often to look again before the core is given up: the communicator's spin_limit, or less where
 * others, such as ranks bound to the same core, had use for it when it was. */
int comm_yield_polls(const struct coll_comm *comm);

/* Whether programs that are no ranks, and compute, seem to be on the ranks' cores. One that is
 * given up to them comes back a time slice later, some milliseconds; a thread that sleeps and is
 * woken comes before them. */
bool comm_yield_is_costly(void);

/* Gives up the core, by sched_yield or, with a transport, by its own way. */
void comm_yield(const struct coll_comm *comm, transport_t *transport);

#endif
