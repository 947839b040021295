/*
 * Transport from a rank to itself, for coll_send and coll_recv to one's own rank. It is the
 * simplest implementation of transport_ops_t, and a reference for tests.
 */
#ifndef TRANSPORT_SELF_SELF_H
#define TRANSPORT_SELF_SELF_H

#include "transport/ops.h"

/* Reaches peer `rank` only. slot_bytes as in the communicator's other transports. The caller owns
 * *t: ops->destroy. COLL_ERROR_MEMORY. */
coll_status_t transport_self_create(int rank, int size, size_t slot_bytes, transport_t **t);

#endif
