/*
 * Algorithms for peers that can map each other's SCRATCH but not the user's memory: data for peers
 * is copied ("staged") into SCRATCH first. There is no address exchange at the start of the call.
 * So a rank accesses a peer's SCRATCH only after a signal of its owner in this call, and the owner
 * leaves only after signals of all ranks that accessed it. Any rank count; a barrier costs p(p-1)
 * signals. User memory is copied before anything is written to it, so all of these work in place.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char graham_2008[] =
    "Graham & Shipman, MPI support for multi-core architectures: optimized shared memory "
    "collectives, 2008";

static bool is_root(const plan_emitter_t *e) {
  return e->rank == e->plan->shape.root;
}

static void outline_one_block(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_SCRATCH, 1, 1);
}

/* One block of SCRATCH for every peer. */
static void outline_blocks(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_SCRATCH, 1, plan->shape.size);
}

/* One share of the vector per rank. */
static void outline_shares(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_SCRATCH, plan->shape.size, plan->shape.size);
}

/* Copies the p chunks of INPUT to SCRATCH, except this rank's own, and signals all peers. */
static void stage_others(plan_emitter_t *e) {
  int32_t below = e->rank, above = e->plan->shape.size - e->rank - 1;
  plan_emit_copy(e, 0, plan_scratch(e, 0, below), plan_input(e, 0, below));
  plan_emit_copy(e, 0, plan_scratch(e, e->rank + 1, above), plan_input(e, e->rank + 1, above));
  algo_signal_peers(e);
}

/* Copies chunk `from` of each peer's SCRATCH to the OUTPUT chunk with the peer's number, as soon as
 * the peer has staged it; `from` < 0 means the chunk with the peer's number. Ends with a
 * barrier. */
static void copy_staged(plan_emitter_t *e, int32_t from) {
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_wait(e, 0, peer);
    plan_emit_copy(e, 0, plan_output(e, peer, 1),
                   plan_peer_scratch(peer, from < 0 ? peer : from, 1));
    plan_emit_signal(e, 0, peer);
  }
  algo_wait_peers(e);
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Rank r reduces share r of all staged operands into its SCRATCH, from which the peers copy it.
 * Three barriers; n stores to stage, n loads and n/p stores to reduce, n loads and stores to copy
 * the result. */

static void allreduce_build(plan_emitter_t *e) {
  int32_t rank = e->rank;
  stage_others(e);
  algo_wait_peers(e);
  algo_reduce_all(e, plan_scratch(e, rank, 1), PLAN_SCRATCH, PLAN_INPUT, rank);
  algo_signal_peers(e);
  plan_emit_copy(e, 0, plan_output(e, rank, 1), plan_scratch(e, rank, 1));
  copy_staged(e, -1);
}

const algo_t algo_allreduce_staged = {
    .name = "staged",
    .collective = COLL_ALLREDUCE,
    .paper = graham_2008,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_shares,
    .build = allreduce_build,
};

/* ---- reduce ----------------------------------------------------------------------------------
 * As allreduce, but only the root copies the results. It does so when all ranks have reduced their
 * shares, so the root's signal to a peer means that the other ranks no longer access the peer's
 * SCRATCH either. One barrier and 2(p-1) signals. */

static void collect_shares(plan_emitter_t *e) {
  algo_wait_peers(e);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_copy(e, 0, plan_output(e, peer, 1), plan_peer_scratch(peer, peer, 1));
    plan_emit_signal(e, 0, peer);
  }
}

static void reduce_build(plan_emitter_t *e) {
  int32_t rank = e->rank, root = e->plan->shape.root;
  stage_others(e);
  algo_wait_peers(e);
  plan_span_t share = is_root(e) ? plan_output(e, rank, 1) : plan_scratch(e, rank, 1);
  algo_reduce_all(e, share, PLAN_SCRATCH, PLAN_INPUT, rank);
  if (is_root(e)) {
    collect_shares(e);
  } else {
    plan_emit_signal(e, 0, root);
    plan_emit_wait(e, 0, root);
  }
}

const algo_t algo_reduce_staged = {
    .name = "staged",
    .collective = COLL_REDUCE,
    .paper = graham_2008,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_shares,
    .build = reduce_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * Two barriers: after staging, and after reducing. */

static void reduce_scatter_build(plan_emitter_t *e) {
  stage_others(e);
  algo_wait_peers(e);
  algo_reduce_all(e, plan_output(e, 0, 1), PLAN_SCRATCH, PLAN_INPUT, e->rank);
  algo_signal_peers(e);
  algo_wait_peers(e);
}

const algo_t algo_reduce_scatter_staged = {
    .name = "staged",
    .collective = COLL_REDUCE_SCATTER,
    .paper = graham_2008,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_blocks,
    .build = reduce_scatter_build,
};

/* ---- allgather and alltoall ------------------------------------------------------------------
 * Two barriers: after staging, and after copying. */

static void allgather_build(plan_emitter_t *e) {
  plan_span_t block = plan_input(e, 0, 1), staged = plan_scratch(e, 0, 1);
  if (e->program->in_place) {
    plan_emit_copy(e, 0, staged, block);
  } else { /* a reduction of one operand, so that the engine loads it once for both destinations */
    plan_emit_reduce(e, 0, staged, &block, 1);
    plan_emit_copy(e, 0, plan_output(e, e->rank, 1), staged);
  }
  algo_signal_peers(e);
  copy_staged(e, 0);
}

const algo_t algo_allgather_staged = {
    .name = "staged",
    .collective = COLL_ALLGATHER,
    .paper = graham_2008,
    .outline = outline_one_block,
    .build = allgather_build,
};

static void alltoall_build(plan_emitter_t *e) {
  stage_others(e);
  plan_emit_input_to_output(e, 0, e->rank, e->rank, 1);
  copy_staged(e, e->rank);
}

const algo_t algo_alltoall_staged = {
    .name = "staged",
    .collective = COLL_ALLTOALL,
    .paper = graham_2008,
    .outline = outline_blocks,
    .build = alltoall_build,
};

/* ---- broadcast -------------------------------------------------------------------------------
 * The root stages its vector once and all peers copy it. */

static void broadcast_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (!is_root(e)) {
    plan_emit_wait(e, 0, root);
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_peer_scratch(root, 0, 1));
    plan_emit_signal(e, 0, root);
    return;
  }
  plan_emit_copy(e, 0, plan_scratch(e, 0, 1), plan_input(e, 0, 1));
  algo_signal_peers(e);
  algo_copy_through(e);
  algo_wait_peers(e);
}

const algo_t algo_broadcast_staged = {
    .name = "staged",
    .collective = COLL_BROADCAST,
    .paper = graham_2008,
    .outline = outline_one_block,
    .build = broadcast_build,
};

/* ---- gather ----------------------------------------------------------------------------------
 * Every peer stages its block and the root copies them. */

static void gather_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (!is_root(e)) {
    plan_emit_copy(e, 0, plan_scratch(e, 0, 1), plan_input(e, 0, 1));
    plan_emit_signal(e, 0, root);
    plan_emit_wait(e, 0, root);
    return;
  }
  plan_emit_input_to_output(e, 0, root, 0, 1);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_wait(e, 0, peer);
    plan_emit_copy(e, 0, plan_output(e, peer, 1), plan_peer_scratch(peer, 0, 1));
    plan_emit_signal(e, 0, peer);
  }
}

const algo_t algo_gather_staged = {
    .name = "staged",
    .collective = COLL_GATHER,
    .paper = graham_2008,
    .outline = outline_one_block,
    .build = gather_build,
};

/* ---- scatter ---------------------------------------------------------------------------------
 * Every peer signals that its SCRATCH is free and the root stores the peer's block there. One block
 * of SCRATCH is enough, and the root does not wait for the peers at the end. */

static void scatter_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (!is_root(e)) {
    plan_emit_signal(e, 0, root);
    plan_emit_wait(e, 0, root);
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_scratch(e, 0, 1));
    return;
  }
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_wait(e, 0, peer);
    plan_emit_copy(e, 0, plan_peer_scratch(peer, 0, 1), plan_input(e, peer, 1));
    plan_emit_signal(e, 0, peer);
  }
  plan_emit_input_to_output(e, 0, 0, root, 1);
}

const algo_t algo_scatter_staged = {
    .name = "staged",
    .collective = COLL_SCATTER,
    .paper = graham_2008,
    .outline = outline_one_block,
    .build = scatter_build,
};
