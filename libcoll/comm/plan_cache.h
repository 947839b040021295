/* What a call came to, kept for the calls like it. */
#ifndef COMM_PLAN_CACHE_H
#define COMM_PLAN_CACHE_H

#include "algo/algo.h"
#include "comm/shape.h"
#include "engine/run.h"

#define COMM_CACHE_ENTRIES 32 /* shapes of collectives that are kept prepared; a power of 2 */

/* Of a block, in calls that take the short way: what larger ones take has little to do with their
 * calls. */
#define COMM_FASTPATH_BYTES_MAX 16384

typedef struct comm_plan {
  const algo_t *algo;
  int root;
  bool in_place;
  bool fits[9]; /* whether slots have room, by element size: 1, 2, 4 and 8 bytes */
  plan_t *plan;
} comm_plan_t;

/* How collectives of a shape are carried out: the next one like it asks nobody, works nothing out
 * again and allocates nothing. */
typedef struct comm_cache_entry {
  comm_shape_t shape; /* traits 0: none yet */
  const comm_plan_t *plan;
  engine_run_t run;
  bool repeats; /* nothing is to be done beside the run, which can be begun again */
  size_t send_bytes, recv_bytes; /* this rank's, of what repeats; 0: it has no such buffer */
  flight_call_t id;              /* of call 0, without history */
  engine_call_t call;            /* all but buffers and id, which differ from call to call */
} comm_cache_entry_t;

/* The only place where it may be. Fibonacci hashing. */
BASE_INLINE comm_cache_entry_t *comm_cache_slot(comm_cache_entry_t places[COMM_CACHE_ENTRIES],
                                                comm_shape_t shape) {
  uint64_t mixed = (shape.traits + shape.count * 64) * 0x9e3779b97f4a7c15u;
  return &places[(mixed >> 32) * COMM_CACHE_ENTRIES >> 32];
}

#endif
