/*
 * Calls that wait for too long. A rank that has waited for comm_limits_t.hang_ns prints on standard
 * error which ranks are missing; one that has waited for timeout_ns finishes the communicator.
 */
#ifndef COMM_HANG_H
#define COMM_HANG_H

#include "comm/comm.h"

/* For a rank that has published a wait, which began at begin_ns, and has found nothing new since
 * the last call for the same wait. COLL_ERROR_TIMEOUT, having finished the communicator. */
coll_status_t comm_hang_check(struct coll_comm *comm, uint64_t begin_ns);

#endif
