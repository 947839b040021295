/*
 * Small collectives of one group, carried out as one: what they send is gathered, goes through one
 * call, and what comes is spread to where each wants it. What a small call costs is its crossing,
 * and that is paid once.
 */
#ifndef COMM_COALESCE_H
#define COMM_COALESCE_H

#include "comm/call.h"

typedef struct comm_piece {
  const void *send; /* NULL where this rank has no such buffer */
  void *recv;
  size_t bytes;
} comm_piece_t;

/* The calls that a call stands for; its buffers are `memory`. */
struct comm_coalesced {
  void *memory;
  size_t count;
  comm_piece_t pieces[];
};

/* Joins what goes together among a group's calls, in place: the first of those stands for all, and
 * the others' comm is set NULL. Ranks that made the same collectives of a communicator in a group
 * join the same. COLL_ERROR_INVALID where two that would be joined use the same memory. On failure
 * the calls are still the caller's, all of them, some perhaps joined. */
coll_status_t comm_coalesce(comm_call_t calls[], size_t count);

/* Before and after a call that stands for others. */
void comm_coalesced_gather(const comm_call_t *call);
void comm_coalesced_scatter(const comm_call_t *call);

#endif
