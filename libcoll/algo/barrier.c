/*
 * Barriers. A barrier moves no data, so its plans consist of signals only. No rank may leave before
 * every rank has entered.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char hensgen_1988[] =
    "Hensgen, Finkel & Manber, Two algorithms for barrier synchronization, 1988";

static void outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_SCRATCH, 1, 0);
}

/* ---- dissemination ---------------------------------------------------------------------------
 * Hensgen, Finkel & Manber 1988. ceil(log2 p) rounds for any rank count, p signals in each. After
 * the round of distance d, a rank has received signals, directly or through others, from the 2d - 1
 * ranks before it. */

static void dissemination_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  for (int32_t distance = 1; distance < size; distance *= 2) {
    plan_emit_signal(e, 0, algo_mod(e->rank + distance, size));
    plan_emit_wait(e, 0, algo_mod(e->rank - distance, size));
  }
}

const algo_t algo_barrier_dissemination = {
    .name = "dissemination",
    .collective = COLL_BARRIER,
    .paper = hensgen_1988,
    .outline = outline,
    .build = dissemination_build,
};

/* ---- tournament ------------------------------------------------------------------------------
 * The paper's second barrier: signals go up a binomial tree and down again. 2 ceil(log2 p) rounds
 * for any rank count, but only 2(p-1) signals in total. */

static void tournament_build(plan_emitter_t *e) {
  int32_t farthest = algo_tree_distance(e->rank, e->plan->shape.size);
  for (int32_t distance = 1; distance <= farthest; distance *= 2) {
    plan_emit_wait(e, 0, e->rank + distance);
  }
  if (e->rank > 0) {
    plan_emit_signal(e, 0, algo_tree_parent(e->rank));
    plan_emit_wait(e, 0, algo_tree_parent(e->rank));
  }
  for (int32_t distance = farthest; distance >= 1; distance /= 2) {
    plan_emit_signal(e, 0, e->rank + distance);
  }
}

const algo_t algo_barrier_tournament = {
    .name = "tournament",
    .collective = COLL_BARRIER,
    .paper = hensgen_1988,
    .outline = outline,
    .build = tournament_build,
};

/* ---- allpairs --------------------------------------------------------------------------------
 * Every rank signals every other rank: one round and p(p-1) signals. Ranks that share a core need
 * only one context switch each. */

static void allpairs_build(plan_emitter_t *e) {
  algo_signal_peers(e);
  algo_wait_peers(e);
}

const algo_t algo_barrier_allpairs = {
    .name = "allpairs",
    .collective = COLL_BARRIER,
    .paper = "one round of signals needs no algorithm",
    .outline = outline,
    .build = allpairs_build,
};
