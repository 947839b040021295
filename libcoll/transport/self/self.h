/*
 * The transport from a rank to itself: what coll_send and coll_recv to one's own rank go through.
 * The simplest one there is, and a twin to test against.
 */
#ifndef TRANSPORT_SELF_SELF_H
#define TRANSPORT_SELF_SELF_H

#include "transport/ops.h"

/* Peer `rank` is the only one it reaches. slot_bytes as in the communicator's other transports.
 * Owned by the caller: ops->destroy. */
coll_status_t transport_self_create(int rank, int size, size_t slot_bytes, transport_t **t);

#endif
