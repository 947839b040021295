/*
 * File descriptors that the ranks of a communicator pass to each other, as a step of a call in
 * which all of them take part. Passing and receiving are two functions: a thread that makes the
 * calls of several ranks passes those of all its ranks before it receives any.
 */
#ifndef OFFLOAD_DESCRIPTORS_H
#define OFFLOAD_DESCRIPTORS_H

#include "comm/comm.h"

/* Whether descriptors can be passed between this rank and the peer: by ranks of one host that share
 * memory. Symmetric; false for this rank itself. */
bool offload_descriptors_reach(const struct coll_comm *comm, int peer);

/* Passes a copy of `descriptor` to each peer of to[size], all within reach; it stays the caller's.
 * tag: the same on all ranks, and that of no other step of this communicator. Waits only if a peer
 * has many descriptors to receive, and fails as offload_descriptors_receive does. The caller holds
 * the communicator's lock. */
coll_status_t offload_descriptors_pass(struct coll_comm *comm, const bool to[], uint64_t tag,
                                       int descriptor);

/* Receives a descriptor from each peer of from[size], each of which passes one with the tag. The
 * caller owns descriptors[peer] of these; the others are set to -1. A failure finishes the
 * communicator and leaves the caller none: COLL_ERROR_RANK_LOST names a peer that died or left,
 * COLL_ERROR_TIMEOUT one that passed nothing within the limit of the communicator's calls, or 30 s.
 * The caller holds the communicator's lock. */
coll_status_t offload_descriptors_receive(struct coll_comm *comm, const bool from[], uint64_t tag,
                                          int descriptors[]);

/* Both, for a caller that does not hold the lock. descriptor: -1 if to[] has no rank. */
coll_status_t offload_descriptors_exchange(struct coll_comm *comm, const bool to[],
                                           const bool from[], uint64_t tag, int descriptor,
                                           int descriptors[]);

#endif
