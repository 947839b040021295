/*
 * Algorithms for ranks that take turns on two cores: two ranks do the work of all, which are as far
 * from the first rank as from the last: these share no core whether neighbours or every second rank
 * do. The others bring their data and fetch the result in one turn of each call, where plans that
 * give everybody a share take as many turns as they have meetings. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char graham_2008[] =
    "Graham & Shipman, MPI support for multi-core architectures: optimized shared memory "
    "collectives, 2008";

#define WORKERS 2

/* The rank that works on share `i`. The rank in the middle, as a leader, takes the first one. */
static int32_t worker(const plan_emitter_t *e, int32_t i) {
  int32_t lead = e->plan->shape.root, mirrored = e->plan->shape.size - 1 - lead;
  if (i == 0) return lead;
  return mirrored != lead ? mirrored : 0;
}

/* The share of this rank, or -1. */
static int32_t own_share(const plan_emitter_t *e) {
  for (int32_t i = 0; i < WORKERS; i++) {
    if (e->rank == worker(e, i)) return i;
  }
  return -1;
}

/* The others of the two, in a row, so that a rank which waits can tell at once whom it misses. */
static void wait_for_workers(plan_emitter_t *e, int32_t share) {
  for (int32_t i = 0; i < WORKERS; i++) {
    if (i != share) plan_emit_wait(e, 0, worker(e, i));
  }
}

static void signal_workers(plan_emitter_t *e) {
  for (int32_t i = 0; i < WORKERS; i++) {
    if (worker(e, i) != e->rank) plan_emit_signal(e, 0, worker(e, i));
  }
}

/* ---- allreduce, mapped -----------------------------------------------------------------------
 * Each of the two reduces one half of all operands and stores it in every OUTPUT. Where two ranks
 * share each core and take the lead in turns, the one that comes to a call last does its work at
 * once and goes on to the next: one turn a call. */

static void mapped_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, WORKERS, 0);
}

static void mapped_build(plan_emitter_t *e) {
  int32_t share = own_share(e);
  if (share >= 0) {
    plan_span_t result = plan_output(e, share, 1);
    algo_reduce_all(e, result, PLAN_INPUT, PLAN_INPUT, share);
    for (int32_t i = 1; i < e->plan->shape.size; i++) {
      plan_emit_copy(e, 0, plan_peer_output(algo_peer(e, i), share, 1), result);
    }
    algo_signal_peers(e);
  }
  wait_for_workers(e, share);
}

const algo_t algo_allreduce_mapped_by_two = {
    .name = "mapped_by_two",
    .collective = COLL_ALLREDUCE,
    .paper = graham_2008,
    .by_executor = true,
    .order = PLAN_ORDER_EXACT,
    .outline = mapped_outline,
    .build = mapped_build,
};

/* ---- allreduce, staged -----------------------------------------------------------------------
 * All stage their operands in their own SCRATCH, and each of the two reduces one half of them. */

static void staged_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_SCRATCH, WORKERS, WORKERS);
}

/* The shares that others work on. */
static algo_run_t others_shares(int32_t share) {
  return (algo_run_t){.first = share == 0 ? 1 : 0, .count = share < 0 ? WORKERS : 1};
}

static void stage(plan_emitter_t *e, algo_run_t shares) {
  plan_emit_copy(e, 0, plan_scratch(e, shares.first, shares.count),
                 plan_input(e, shares.first, shares.count));
  signal_workers(e);
}

/* Each of the two leaves the result in its SCRATCH, and stays until all have fetched it. */

static void fetch(plan_emitter_t *e, int32_t share) {
  int32_t from = worker(e, share);
  plan_emit_wait(e, 0, from);
  plan_emit_copy(e, 0, plan_output(e, share, 1), plan_peer_scratch(from, share, 1));
  plan_emit_signal(e, 0, from);
}

static void staged_build(plan_emitter_t *e) {
  int32_t share = own_share(e);
  stage(e, others_shares(share));
  if (share >= 0) {
    algo_wait_peers(e);
    algo_reduce_all(e, plan_scratch(e, share, 1), PLAN_SCRATCH, PLAN_INPUT, share);
    plan_emit_copy(e, 0, plan_output(e, share, 1), plan_scratch(e, share, 1));
    algo_signal_peers(e);
  }
  for (int32_t i = 0; i < WORKERS; i++) {
    if (i != share) fetch(e, i);
  }
  if (share >= 0) algo_wait_peers(e);
}

const algo_t algo_allreduce_staged_by_two = {
    .name = "staged_by_two",
    .collective = COLL_ALLREDUCE,
    .paper = graham_2008,
    .order = PLAN_ORDER_EXACT,
    .outline = staged_outline,
    .build = staged_build,
};

/* Each of the two stores the result wherever it has just read an operand. That is more to store
 * where there are many, but nobody stays for anybody: where the executor rank changes with each call. */

static void staged_push_build(plan_emitter_t *e) {
  int32_t share = own_share(e);
  algo_run_t others = others_shares(share);
  stage(e, others);
  if (share >= 0) {
    plan_span_t result = plan_output(e, share, 1);
    algo_wait_peers(e);
    algo_reduce_all(e, result, PLAN_SCRATCH, PLAN_INPUT, share);
    for (int32_t i = 1; i < e->plan->shape.size; i++) {
      plan_emit_copy(e, 0, plan_peer_scratch(algo_peer(e, i), share, 1), result);
    }
    algo_signal_peers(e);
  }
  wait_for_workers(e, share);
  plan_emit_copy(e, 0, plan_output(e, others.first, others.count),
                 plan_scratch(e, others.first, others.count));
}

const algo_t algo_allreduce_staged_by_two_push = {
    .name = "staged_by_two_push",
    .collective = COLL_ALLREDUCE,
    .paper = graham_2008,
    .by_executor = true,
    .order = PLAN_ORDER_EXACT,
    .outline = staged_outline,
    .build = staged_push_build,
};
