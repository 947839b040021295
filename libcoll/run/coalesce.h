/*
 * Coalesces small collectives of one group into one call: their inputs are gathered into one
 * buffer, one collective runs, and its output is scattered to their output buffers. The time of a
 * small call is mostly latency, which is then paid once.
 */
#ifndef RUN_COALESCE_H
#define RUN_COALESCE_H

#include "run/call.h"

typedef struct comm_member {
  const void *send; /* NULL if this rank has no such buffer */
  void *recv;
  size_t bytes;
} comm_member_t;

/* The calls that a coalesced call replaces. The buffers of the coalesced call are in `memory`. */
struct run_coalesced {
  void *memory;
  size_t count;
  comm_member_t members[];
};

/* Coalesces the calls of a group in place where possible: the first call of each set becomes the
 * coalesced call, and the others get comm NULL. Ranks that made the same collectives of a
 * communicator in the group coalesce the same ones. COLL_ERROR_INVALID if two calls of a set use
 * the same memory. On failure the caller still owns all calls, some of which may be coalesced. */
coll_status_t run_coalesce(run_call_t calls[], size_t count);

/* Copies the inputs into the coalesced call's send buffer before it runs, and its output to the
 * calls' receive buffers after it. */
void run_coalesced_gather(const run_call_t *call);
void run_coalesced_scatter(const run_call_t *call);

#endif
