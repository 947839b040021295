/*
 * Algorithms for more ranks than cores, on two cores. Two ranks, the executors, do the reduction
 * for all ranks, one half of the vector each. The executors are rank e and rank p-1-e, so that they
 * share no core, whether the cores have blocks of neighbouring ranks or every second rank. The
 * other ranks provide their operands and fetch the result in one time slice per call; plans that
 * give every rank a share need one time slice per barrier. Any rank count.
 *
 * In plans that are algo_t.by_executor rank e is shape.root; the communicator uses those of root 0.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char graham_2008[] =
    "Graham & Shipman, MPI support for multi-core architectures: optimized shared memory "
    "collectives, 2008";

#define EXECUTORS 2

/* The rank that reduces share `i`. Where rank e is its own mirror (the middle rank), rank 0 takes
 * share 1. */
static int32_t executor(const plan_emitter_t *e, int32_t i) {
  int32_t root = e->plan->shape.root, mirrored = e->plan->shape.size - 1 - root;
  if (i == 0) return root;
  return mirrored != root ? mirrored : 0;
}

/* The share that this rank reduces, or -1. */
static int32_t own_share(const plan_emitter_t *e) {
  for (int32_t i = 0; i < EXECUTORS; i++) {
    if (e->rank == executor(e, i)) return i;
  }
  return -1;
}

/* Waits for the executors other than this rank. The waits are adjacent steps, so that the engine
 * can report all missing ranks at once. */
static void wait_for_executors(plan_emitter_t *e, int32_t share) {
  for (int32_t i = 0; i < EXECUTORS; i++) {
    if (i != share) plan_emit_wait(e, 0, executor(e, i));
  }
}

static void signal_executors(plan_emitter_t *e) {
  for (int32_t i = 0; i < EXECUTORS; i++) {
    if (executor(e, i) != e->rank) plan_emit_signal(e, 0, executor(e, i));
  }
}

/* ---- allreduce, mapped -----------------------------------------------------------------------
 * Each executor reduces one half of all operands and stores it in every OUTPUT. */

static void mapped_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, EXECUTORS, 0);
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
  wait_for_executors(e, share);
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
 * All ranks copy their operands to their own SCRATCH, and each executor reduces one half of
 * them. */

static void staged_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_SCRATCH, EXECUTORS, EXECUTORS);
}

/* The shares that other ranks reduce. */
static algo_run_t others_shares(int32_t share) {
  return (algo_run_t){.first = share == 0 ? 1 : 0, .count = share < 0 ? EXECUTORS : 1};
}

static void stage(plan_emitter_t *e, algo_run_t shares) {
  plan_emit_copy(e, 0, plan_scratch(e, shares.first, shares.count),
                 plan_input(e, shares.first, shares.count));
  signal_executors(e);
}

/* Each executor keeps the result in its SCRATCH and stays in the call until all ranks have fetched
 * it. */

static void fetch(plan_emitter_t *e, int32_t share) {
  int32_t from = executor(e, share);
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
  for (int32_t i = 0; i < EXECUTORS; i++) {
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

/* Each executor stores the result over the operand of every rank. That stores more when there are
 * many ranks, but no rank has to stay in the call for another. It is meant for executor ranks that
 * change with each call. */

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
  wait_for_executors(e, share);
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
