/*
 * Detects calls that wait too long. A rank that has waited for comm_limits_t.hang_ns prints on
 * standard error which ranks are missing. A rank that has waited for timeout_ns ends the
 * communicator.
 */
#ifndef WATCH_HANG_H
#define WATCH_HANG_H

#include "comm/comm.h"

/* Called by a rank that has published a wait, which began at begin_ns, and has received nothing
 * since the previous check of the same wait. COLL_ERROR_TIMEOUT after the communicator was ended.
 */
coll_status_t watch_hang_check(struct coll_comm *comm, uint64_t begin_ns);

#endif
