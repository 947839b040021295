/* What a plan moves, in bytes: per rank, and over the links that a layout says are slowest. */
#ifndef COLLPLAN_TRAFFIC_H
#define COLLPLAN_TRAFFIC_H

#include "plan/plan.h"

typedef struct traffic {
  int64_t rounds; /* rounds.h */
  int64_t sent;   /* the most that a rank sends, loads from peers and stores to peers */
  int64_t slow;   /* grid: over the busiest link in one direction; hosts: the most that leaves a
                     host; -1 without either */
} traffic_t;

/* block_bytes: a multiple of the plan's parts. Messages cross a grid dimension by dimension, the
 * last one first, and each dimension of a torus the shorter way. COLL_ERROR_INVALID: the bytes are
 * no such multiple, or the plan deadlocks. */
coll_status_t traffic_count(const plan_t *plan, int64_t block_bytes, traffic_t *traffic);

#endif
