/*
 * Whether programs that are no ranks compute on the ranks' cores. A core that is given up to one
 * of them comes back a time slice later, some milliseconds; a thread that sleeps and is woken comes
 * before it. Every thread finds that out for itself.
 */
#ifndef COMM_STRANGERS_H
#define COMM_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"

/* Whether it seemed so lately: then it is better to sleep than to give up the core. */
bool comm_strangers_are_about(void);

/* Gives up the core, by sched_yield or, with a transport, by its own way. */
void comm_strangers_yield(const struct coll_comm *comm, transport_t *transport);

#endif
