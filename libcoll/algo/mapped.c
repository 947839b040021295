/*
 * Algorithms for peers whose INPUT and OUTPUT can be loaded and stored directly: every byte moves
 * once, by the rank that wants it or makes it, and reductions are one pass over all ranks' operands
 * in rank order. The engine's handshake puts every rank's entry before all of this; what is left to
 * order is that a rank stays in the call until its peers are done with its memory. Any rank count;
 * p(p-1) signals per meeting of all, two rounds at most.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char hashmi_2018[] =
    "Hashmi, Chakraborty, Bayatpour & Panda, Designing efficient shared address space reduction "
    "collectives for multi-/many-cores, 2018";

/* No rank goes on before all are here. */
static void meet(plan_emitter_t *e) {
  algo_signal_peers(e);
  algo_wait_peers(e);
}

static bool is_root(const plan_emitter_t *e) {
  return e->rank == e->plan->shape.root;
}

/* The end of a call in which no memory but the root's is touched: the root stays for its peers. */
static void root_waits(plan_emitter_t *e) {
  if (is_root(e)) {
    algo_wait_peers(e);
  } else {
    plan_emit_signal(e, 0, e->plan->shape.root);
  }
}

static void outline_whole(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, 1, 0);
}

/* One share of the vector per rank. */
static void outline_shares(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, plan->shape.size, 0);
}

/* Copies `src` to the OUTPUT chunk of every rank. As a reduction of one operand, so that the engine
 * loads it once and writes all places in one pass. */
static void spread(plan_emitter_t *e, plan_span_t src, int32_t chunk) {
  plan_span_t own = plan_output(e, chunk, 1);
  bool there = e->program->in_place && src.rank == e->rank;
  if (!there) plan_emit_reduce(e, 0, own, &src, 1);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_emit_copy(e, 0, plan_peer_output(algo_peer(e, i), chunk, 1), own);
  }
}

/* ---- allreduce: oneshot ----------------------------------------------------------------------
 * Every rank reduces the whole vector for itself: one round, p n loads per rank. In place the
 * result waits in SCRATCH until the peers have read this rank's operand. */

static void oneshot_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, 1, 1);
}

static void oneshot_build(plan_emitter_t *e) {
  bool aside = e->program->in_place;
  plan_span_t result = aside ? plan_scratch(e, 0, 1) : plan_output(e, 0, 1);
  algo_reduce_all(e, result, PLAN_INPUT, PLAN_INPUT, 0);
  meet(e);
  if (aside) plan_emit_copy(e, 0, plan_output(e, 0, 1), result);
}

const algo_t algo_allreduce_oneshot = {
    .name = "oneshot",
    .collective = COLL_ALLREDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = oneshot_outline,
    .build = oneshot_build,
};

/* ---- allreduce: twophase ---------------------------------------------------------------------
 * Rank r reduces share r of all operands (n loads, n/p stores), then the shares are exchanged: by
 * their owners' stores (push, one meeting; the copies stand straight behind the reduction, so that
 * the engine writes all places in one pass) or by everyone's loads (pull, two). Only r reads share
 * r of any INPUT, and nobody writes share r of an OUTPUT before it has, so both serve in place. */

static void push_build(plan_emitter_t *e) {
  int32_t rank = e->rank;
  algo_reduce_all(e, plan_output(e, rank, 1), PLAN_INPUT, PLAN_INPUT, rank);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_emit_copy(e, 0, plan_peer_output(algo_peer(e, i), rank, 1), plan_output(e, rank, 1));
  }
  meet(e);
}

const algo_t algo_allreduce_twophase_push = {
    .name = "twophase_push",
    .collective = COLL_ALLREDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_shares,
    .build = push_build,
};

static void pull_build(plan_emitter_t *e) {
  algo_reduce_all(e, plan_output(e, e->rank, 1), PLAN_INPUT, PLAN_INPUT, e->rank);
  algo_signal_peers(e);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_wait(e, 0, peer);
    plan_emit_copy(e, 0, plan_output(e, peer, 1), plan_peer_output(peer, peer, 1));
    plan_emit_signal(e, 0, peer);
  }
  algo_wait_peers(e);
}

const algo_t algo_allreduce_twophase_pull = {
    .name = "twophase_pull",
    .collective = COLL_ALLREDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_shares,
    .build = pull_build,
};

/* ---- reduce ----------------------------------------------------------------------------------
 * Rank r reduces share r of all operands straight into the root's OUTPUT: one round, n loads per
 * rank, so the work is spread evenly. */

static void reduce_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  algo_reduce_all(e, plan_peer_output(root, e->rank, 1), PLAN_INPUT, PLAN_INPUT, e->rank);
  meet(e);
}

const algo_t algo_reduce_mapped = {
    .name = "mapped",
    .collective = COLL_REDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_shares,
    .build = reduce_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * Every rank reduces its own block of all operands: one round, p blocks of loads per rank. In place
 * it writes the block that no peer reads. */

static void reduce_scatter_build(plan_emitter_t *e) {
  algo_reduce_all(e, plan_output(e, 0, 1), PLAN_INPUT, PLAN_INPUT, e->rank);
  meet(e);
}

const algo_t algo_reduce_scatter_mapped = {
    .name = "mapped",
    .collective = COLL_REDUCE_SCATTER,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_whole,
    .build = reduce_scatter_build,
};

/* ---- allgather -------------------------------------------------------------------------------
 * Every rank loads every block: one round, p - 1 blocks per rank. */

static void allgather_build(plan_emitter_t *e) {
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_copy(e, 0, plan_output(e, peer, 1), plan_peer_input(peer, 0, 1));
    plan_emit_signal(e, 0, peer);
  }
  algo_wait_peers(e);
}

const algo_t algo_allgather_mapped = {
    .name = "mapped",
    .collective = COLL_ALLGATHER,
    .paper = hashmi_2018,
    .outline = outline_whole,
    .build = allgather_build,
};

/* Every rank stores its block in every OUTPUT: as many stores, but it loads only its own. */
static void allgather_push_build(plan_emitter_t *e) {
  spread(e, plan_input(e, 0, 1), e->rank);
  meet(e);
}

const algo_t algo_allgather_mapped_push = {
    .name = "mapped_push",
    .collective = COLL_ALLGATHER,
    .paper = hashmi_2018,
    .outline = outline_whole,
    .build = allgather_push_build,
};

/* ---- broadcast, scatter, gather --------------------------------------------------------------
 * The peers do the work, all at once: they load from the root's INPUT or store to its OUTPUT, and
 * the root waits for them. One round, one block per peer. */

static void broadcast_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (is_root(e)) {
    algo_copy_through(e);
  } else {
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_peer_input(root, 0, 1));
  }
  root_waits(e);
}

const algo_t algo_broadcast_mapped = {
    .name = "mapped",
    .collective = COLL_BROADCAST,
    .paper = hashmi_2018,
    .outline = outline_whole,
    .build = broadcast_build,
};

/* Every rank takes one share to all OUTPUTs: it is loaded from afar only once, and the root works
 * as much as its peers. */
static void broadcast_shares_build(plan_emitter_t *e) {
  spread(e, plan_peer_input(e->plan->shape.root, e->rank, 1), e->rank);
  meet(e);
}

const algo_t algo_broadcast_mapped_shares = {
    .name = "mapped_shares",
    .collective = COLL_BROADCAST,
    .paper = hashmi_2018,
    .outline = outline_shares,
    .build = broadcast_shares_build,
};

static void scatter_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (is_root(e)) {
    plan_emit_input_to_output(e, 0, 0, root, 1);
  } else {
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_peer_input(root, e->rank, 1));
  }
  root_waits(e);
}

const algo_t algo_scatter_mapped = {
    .name = "mapped",
    .collective = COLL_SCATTER,
    .paper = hashmi_2018,
    .outline = outline_whole,
    .build = scatter_build,
};

static void gather_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (is_root(e)) {
    plan_emit_input_to_output(e, 0, root, 0, 1);
  } else {
    plan_emit_copy(e, 0, plan_peer_output(root, e->rank, 1), plan_input(e, 0, 1));
  }
  root_waits(e);
}

const algo_t algo_gather_mapped = {
    .name = "mapped",
    .collective = COLL_GATHER,
    .paper = hashmi_2018,
    .outline = outline_whole,
    .build = gather_build,
};

/* ---- alltoall --------------------------------------------------------------------------------
 * Every rank loads its block from every peer: one round, p - 1 blocks per rank. In place the blocks
 * wait in SCRATCH until the peers have loaded theirs. */

static void alltoall_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, 1, plan->shape.size);
}

static void alltoall_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  plan_buffer_t landing = e->program->in_place ? PLAN_SCRATCH : PLAN_OUTPUT;
  plan_emit_input_to_output(e, 0, e->rank, e->rank, 1);
  for (int32_t i = 1; i < size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_copy(e, 0, algo_own(e, landing, peer, 1), plan_peer_input(peer, e->rank, 1));
    plan_emit_signal(e, 0, peer);
  }
  algo_wait_peers(e);
  if (landing == PLAN_OUTPUT) return;
  int32_t below = e->rank, above = size - e->rank - 1;
  plan_emit_copy(e, 0, plan_output(e, 0, below), plan_scratch(e, 0, below));
  plan_emit_copy(e, 0, plan_output(e, e->rank + 1, above), plan_scratch(e, e->rank + 1, above));
}

const algo_t algo_alltoall_mapped = {
    .name = "mapped",
    .collective = COLL_ALLTOALL,
    .paper = hashmi_2018,
    .outline = alltoall_outline,
    .build = alltoall_build,
};
