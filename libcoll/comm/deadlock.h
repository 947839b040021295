/*
 * Ranks that wait for each other, so that none of them can go on whatever the others do: a send
 * that finds no room against a collective, two receives from each other, and so on.
 */
#ifndef COMM_DEADLOCK_H
#define COMM_DEADLOCK_H

#include "comm/comm.h"

/* For a rank that has published what it waits for. COLL_ERROR_MISMATCH names the ranks, having
 * finished the communicator. */
coll_status_t comm_deadlock_check(struct coll_comm *comm);

#endif
