/*
 * Transport of ranks of which some share memory: messages to ranks of the same host go through
 * shared memory, those to others over the network. Failures, aborts and flight recorders go over
 * the network, to which all ranks are connected.
 */
#ifndef TRANSPORT_MIXED_MIXED_H
#define TRANSPORT_MIXED_MIXED_H

#include "transport/ops.h"

typedef struct transport_mixed_parts {
  transport_t *local;  /* of shm, to the ranks of this host, which it numbers by itself; NULL: this
                          rank is alone on its host */
  transport_t *net;    /* of tcp, to all ranks */
  const int *local_of; /* [size]: the rank's number in local; -1: it is on another host. Copied. */
  size_t slot_bytes, scratch_bytes; /* the same on all ranks, and not more than each part has */
} transport_mixed_parts_t;

/* Takes over local and net, also on failure. COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t transport_mixed_create(const transport_mixed_parts_t *parts, transport_t **t);

#endif
