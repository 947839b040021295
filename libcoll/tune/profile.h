/*
 * What a plan is made of, counted: how much of everything lies on the longest chain of steps that
 * wait for one another, and how much there is in all. A pure function of algorithm and ranks, so it
 * is counted once and priced for any size of call on any machine.
 */
#ifndef TUNE_PROFILE_H
#define TUNE_PROFILE_H

#include "algo/algo.h"
#include "plan/room.h"
#include "tune/machine.h"

typedef struct tune_counts {
  int64_t hops;     /* from one rank to the next */
  int64_t messages; /* ends of */
  int64_t flags;    /* ends of signals */
  int64_t steps;    /* copies and reductions */
  int64_t chunks[TUNE_MOVE_COUNT];
} tune_counts_t;

/* The chain that is the longest depends on what is dear. */
typedef enum tune_regime {
  TUNE_SMALL,   /* steps, in small calls */
  TUNE_LARGE,   /* bytes, in large ones */
  TUNE_CROWDED, /* hops, where ranks share cores */
  TUNE_REGIME_COUNT
} tune_regime_t;

#define TUNE_SIM_CALLS 8

typedef struct tune_profile {
  const algo_t *algo;
  plan_load_t load;
  plan_reach_t reach;
  plan_order_t order;
  tune_counts_t once[TUNE_REGIME_COUNT]; /* on the longest chain of one pass */
  /* And of two in a row, as passes of a call, or, where ranks reach into each other's buffers and
   * so meet first, as calls. */
  tune_counts_t twice[TUNE_REGIME_COUNT];
  tune_counts_t all; /* of all ranks in one pass; hops: how often they wait */

  /* Of ranks that outnumber cores (turns.h); 0 and false where that was not looked at. */
  int64_t turns; /* of a core from rank to rank, in TUNE_SIM_CALLS passes one after the other */
  bool uneven;   /* some rank does much more than others */
} tune_profile_t;

/* Every rank of up to TUNE_WHOLE ranks is counted, and a few of more; then chains are taken to be
 * as long as the longest of these ranks' programs. The call is out of place, its root 0: others
 * differ from it by one rank's own copies at most. */
#define TUNE_WHOLE 16
coll_status_t tune_profile_make(const algo_t *algo, int size, tune_profile_t *profile);

#endif
