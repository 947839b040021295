/*
 * Detects deadlocks: ranks that wait for each other, so that none of them can continue whatever the
 * other ranks do. Examples: a blocked send against a collective, two receives from each other.
 */
#ifndef WATCH_DEADLOCK_H
#define WATCH_DEADLOCK_H

#include "comm/comm.h"

/* Called by a rank that has published its wait. COLL_ERROR_MISMATCH, with a text that names the
 * ranks, after the communicator was ended. */
coll_status_t watch_deadlock_check(struct coll_comm *comm);

#endif
