/*
 * An entry of the plan cache (plan_cache.h): the plan chosen for one shape of collectives, and its
 * bound program.
 */
#ifndef COMM_CACHE_ENTRY_H
#define COMM_CACHE_ENTRY_H

#include "algo/algo.h"
#include "comm/shape.h"
#include "engine/run.h"

#define COMM_CACHE_ENTRIES 32 /* a power of 2 */

/* Largest block, in bytes, of calls on the fast path. In larger calls the overhead of a call is
 * small against the transfer time. */
#define COMM_FASTPATH_BYTES_MAX 16384

typedef struct comm_plan {
  const algo_t *algo;
  int root;
  bool in_place;
  bool fits[9]; /* by element size (1, 2, 4, 8 bytes): whether the message slots are large enough */
  plan_t *plan;
} comm_plan_t;

/* The plan and the bound run for collectives of one shape. A later call of the same shape chooses
 * nothing, binds nothing and allocates nothing. */
typedef struct comm_cache_entry {
  comm_shape_t shape; /* traits 0: the entry is empty */
  const comm_plan_t *plan;
  engine_run_t run;
  uint64_t fast_traits; /* those of the shape if calls may take the fast path: they need only the
                           run, which can be restarted. Else 0 */
  size_t send_bytes, recv_bytes; /* of this rank, if they may; 0: no such buffer */
  flight_call_t id;              /* identity as call 0, without history */
  engine_call_t call;            /* buffers and id are set by every call */
} comm_cache_entry_t;

/* The only slot that may hold the shape (direct-mapped, Fibonacci hashing). */
BASE_INLINE comm_cache_entry_t *comm_cache_slot(comm_cache_entry_t slots[COMM_CACHE_ENTRIES],
                                                comm_shape_t shape) {
  uint64_t mixed = (shape.traits + shape.count * 64) * 0x9e3779b97f4a7c15u;
  return &slots[(mixed >> 32) * COMM_CACHE_ENTRIES >> 32];
}

#endif
