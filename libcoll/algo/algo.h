/*
 * The algorithms: pure functions from a shape to a plan. A new one is a file in this folder (or a
 * part of its family's file), its name in list.h and a row in registry.c; nothing else in the house
 * changes.
 */
#ifndef ALGO_ALGO_H
#define ALGO_ALGO_H

#include "base/names.h"
#include "plan/emit.h"
#include "plan/plan.h"

typedef struct algo {
  const char *name; /* "ring"; unique within the collective */
  coll_collective_t collective;
  const char *paper; /* author, title, year */

  /* Of a collective without a root: shape.root is the rank that does most for all. Any will do, and
   * the plans differ. */
  bool by_executor;

  /* Of a reduction: what its plans state of their order (plan.h), for any number of ranks; and for
   * powers of two, where that is more. */
  plan_order_t order, power_order;

  /* Both are called for two ranks and more: a single one has only to copy INPUT to OUTPUT. */

  /* Fills in the header: parts, scratch_chunks, lanes, depth, message_chunks, reach. Sees only the
   * shape; must come out the same on every rank. The order is filled in for it. */
  void (*outline)(plan_t *plan);

  /* Emits the program of e->rank. */
  void (*build)(plan_emitter_t *e);
} algo_t;

#define ALGO_ALL_RANKS (-1)

/* Whether plans differ by shape.root. */
static inline bool algo_has_root(const algo_t *algo) {
  return algo->by_executor || base_collective_is_rooted(algo->collective);
}

/* What the algorithm's plans for so many ranks state of their order. */
plan_order_t algo_order(const algo_t *algo, int size);

/* The collective's index-th algorithm, or NULL past the end. */
const algo_t *algo_at(coll_collective_t collective, int index);

/* By name. COLL_ERROR_INVALID names the nearest that exists. */
coll_status_t algo_find(coll_collective_t collective, const char *name, const algo_t **algo);

/* The plan of one rank (or ALGO_ALL_RANKS), checked by plan_check_program. in_place marks every
 * program built. Owned by the caller: plan_free. */
coll_status_t algo_build(const algo_t *algo, const plan_shape_t *shape, int rank, bool in_place,
                         plan_t **plan);

#endif
