/* The bytes that a plan moves over each link of a graph of machines, round by round. */
#ifndef COLLPLAN_FRAMES_H
#define COLLPLAN_FRAMES_H

#include "plan/plan.h"
#include "topo/fabric.h"

typedef struct frames {
  const topo_fabric_t *fabric;
  int32_t count;  /* rounds (rounds.h) in which anything moves */
  int32_t wires;  /* of the fabric */
  double *load;   /* [count * wires]: in sizes of the largest buffer of a rank */
  double busiest; /* the largest load over a wire's GB/s, of all rounds */
  double total;   /* the largest of each round, added up */
} frames_t;

/* The plan's ranks must be those of the fabric. A round's loads and stores of peers' memory are in
 * the round after the last receive or wait before them. Owned by the caller until frames_free.
 * COLL_ERROR_INVALID: the plan deadlocks, or no links connect two ranks that exchange data. */
coll_status_t frames_create(const plan_t *plan, topo_fabric_t *fabric, frames_t *frames);
void frames_free(frames_t *frames);

/* Bytes over all links of a class in a round, each direction of each link counted; -1: all rounds.
 */
double frames_total(const frames_t *frames, int32_t round, topo_class_t link_class);

/* Writes the rounds as an SVG picture: one beside the other, where rounds of equal loads share a
 * frame, or as an animation. labels[node]: of nodes with ranks, else NULL. COLL_ERROR_INVALID: too
 * many hosts or rounds to be read. */
coll_status_t frames_write(const frames_t *frames, const plan_t *plan, const char *const labels[],
                           bool animated, FILE *out);

#endif
