/*
 * The algorithms: pure functions from a shape to a plan. A new algorithm is a file in this folder
 * (or a part of its family's file), its name in list.h and a row in registry.c; no other code
 * changes.
 */
#ifndef ALGO_ALGO_H
#define ALGO_ALGO_H

#include "base/names.h"
#include "plan/emit.h"
#include "plan/plan.h"

typedef struct algo_composition algo_composition_t;

typedef struct algo {
  const char *name; /* "ring"; unique within the collective */
  coll_collective_t collective;
  const char *paper; /* author, title, year */

  /* Only for collectives without a root: shape.root is the executor rank, which does the reduction
   * for all ranks. Any rank may be the executor. Plans of different executors differ. */
  bool by_executor;

  /* Only for reductions: the order that the plans state (plan_order_t). `order` holds for any
   * number of ranks; `power_order`, where it is stricter, for powers of two. */
  plan_order_t order, power_order;

  /* Its lanes use several links, or both directions of a link, at once, which gains something only
   * where links are known to the layout: the lanes of a rank share a core. */
  bool two_way;

  /* It is a ring, or several, in the orders of the layout's rings (topo/rings.h). */
  bool over_rings;

  /* It treats hosts as one rank each, which gains something only between several hosts. */
  bool between_hosts;

  /* Composed of one-dimensional algorithms (compose.h); outline and build are NULL. NULL: it is
   * one-dimensional. */
  const algo_composition_t *composition;

  /* outline and build are called for two ranks or more only. The plan of a single rank is always a
   * copy of INPUT to OUTPUT. */

  /* Fills in the header: parts, scratch_chunks, lanes, depth, message_chunks, reach. Depends on the
   * shape only, so the header is the same on every rank. algo_build fills in the order. */
  void (*outline)(plan_t *plan);

  /* Emits the program of e->rank. */
  void (*build)(plan_emitter_t *e);
} algo_t;

#define ALGO_ALL_RANKS (-1)

/* Whether plans differ by shape.root. */
static inline bool algo_has_root(const algo_t *algo) {
  return algo->by_executor || base_collective_is_rooted(algo->collective);
}

/* The order that the algorithm's plans for `size` ranks state. */
plan_order_t algo_order(const algo_t *algo, int size);

/* Whether the algorithm is of use where the shape's ranks are. All work everywhere; but among ranks
 * of one host, composed ones and those between hosts only add steps; where no links are known,
 * two-way ones; and without rings of the layout, algorithms over rings are a ring. */
bool algo_suits(const algo_t *algo, const plan_shape_t *shape);

/* *legal: its plans access no memory outside of a rank's mapping domain. Signals may go to all
 * ranks. */
coll_status_t algo_is_legal(const algo_t *algo, const plan_shape_t *shape, bool *legal);

/* The collective's index-th algorithm, or NULL past the end. */
const algo_t *algo_at(coll_collective_t collective, int index);

/* Finds an algorithm by name. COLL_ERROR_INVALID names the most similar existing name. */
coll_status_t algo_find(coll_collective_t collective, const char *name, const algo_t **algo);

/* Builds a plan of the header only. Owned by the caller: plan_free. */
coll_status_t algo_outline(const algo_t *algo, const plan_shape_t *shape, plan_t **plan);

/* Builds the plan of one rank (or ALGO_ALL_RANKS) and checks it by plan_check_program. in_place is
 * set in every program built. Owned by the caller: plan_free. */
coll_status_t algo_build(const algo_t *algo, const plan_shape_t *shape, int rank, bool in_place,
                         plan_t **plan);

#endif
