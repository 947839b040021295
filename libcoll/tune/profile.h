/*
 * Counts the operations of a plan: on its longest chain of dependent steps, and in total. The
 * result depends only on the algorithm and the number of ranks, so it is computed once and then
 * priced for any size of call on any machine.
 */
#ifndef TUNE_PROFILE_H
#define TUNE_PROFILE_H

#include "algo/algo.h"
#include "plan/fuse.h"
#include "plan/room.h"
#include "tune/machine.h"

typedef struct tune_counts {
  int64_t hops;     /* dependences between steps of different ranks */
  int64_t messages; /* ends of */
  int64_t flags;    /* ends of signals */
  int64_t distant; /* those of both whose other end is a rank that shares no memory with this one */
  int64_t steps;   /* copies and reductions */
  int64_t gets;    /* of plans that pull: spans that are loaded from peers' INPUT or OUTPUT */
  int64_t chunks[TUNE_MOVE_COUNT];
} tune_counts_t;

/* The longest chain depends on which operations are expensive. */
typedef enum tune_regime {
  TUNE_SMALL,          /* steps: small calls */
  TUNE_LARGE,          /* bytes: large calls */
  TUNE_OVERSUBSCRIBED, /* hops: more ranks than cores */
  TUNE_REGIME_COUNT
} tune_regime_t;

#define TUNE_SIM_CALLS 8

typedef enum tune_verdict {
  TUNE_POSSIBLE,
  TUNE_TOO_FAR,     /* the plan's reach exceeds that of the call */
  TUNE_NO_ROOM,     /* a chunk of one element does not fit the slots or scratch */
  TUNE_OTHER_ORDER, /* the plan does not have the required reduction order */
  TUNE_UNSUITED,    /* algo_suits: no */
  TUNE_NOT_MAPPED   /* algo_is_legal: no */
} tune_verdict_t;

typedef struct tune_profile {
  const algo_t *algo;
  const topo_layout_t *layout;
  const plan_capabilities_t *can; /* of what carries the plan out */
  tune_verdict_t
      verdict; /* POSSIBLE, UNSUITED or NOT_MAPPED; in the last two cases all below is 0 */
  plan_load_t load;
  plan_reach_t reach;
  bool reaches[2]; /* whether ranks access INPUT and OUTPUT of peers */
  plan_order_t order;
  tune_counts_t once[TUNE_REGIME_COUNT]; /* on the longest chain of one pass */
  /* The same for two consecutive passes: passes of one call or, where ranks access each other's
   * buffers and exchange addresses first, of two calls. */
  tune_counts_t twice[TUNE_REGIME_COUNT];
  tune_counts_t all; /* all ranks, one pass; hops: the number of waits */

  /* Set by the scheduling simulation (sched_sim.h) where ranks outnumber cores; 0 otherwise. */
  int64_t switches; /* context switches of a core in TUNE_SIM_CALLS consecutive passes */
  int64_t work;     /* chunks that all ranks load and store */
  int64_t max_work; /* that one rank does */
} tune_profile_t;

/* Profiles an algorithm. Up to TUNE_WHOLE ranks, all ranks are counted. For more, a sample of ranks
 * is counted, and the longest chain is taken to be the longest program of the sample. The call is
 * out of place with root 0: other calls differ by the copies of one rank at most. The layout (or
 * NULL) must live as long as the profile. can: plan_host_capabilities or plan_gpu_capabilities. */
#define TUNE_WHOLE 16
coll_status_t tune_profile_make(const algo_t *algo, int size, const topo_layout_t *layout,
                                const plan_capabilities_t *can, tune_profile_t *profile);

#endif
