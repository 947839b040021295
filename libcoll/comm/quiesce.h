/*
 * Calls of communicators that have failed: while one is still running, its thread may store to
 * buffers of peers.
 */
#ifndef COMM_QUIESCE_H
#define COMM_QUIESCE_H

#include "base/status.h"

/* Waits until no communicator of this process that has failed has calls under way. Each rank waits
 * before it joins another communicator; so once that is complete, no rank of it stores to memory
 * that was passed to a failed call. COLL_ERROR_TIMEOUT after timeout_ns. */
coll_status_t comm_quiesce(int rank, uint64_t timeout_ns);

#endif
