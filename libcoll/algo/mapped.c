/*
 * Algorithms for peers whose INPUT and OUTPUT can be accessed. Those that pull only read peers'
 * buffers, by loads or by the transport's get; those that push also store into them, which needs
 * mapped memory. Every byte moves once, by the rank that needs it or produces it, and a reduction
 * is one pass over all ranks' operands in rank order. The engine's address exchange guarantees that
 * every rank has entered the call before any step runs. The plans only have to make a rank stay in
 * the call until its peers no longer access its memory. Any rank count; a barrier costs p(p-1)
 * signals; at most two rounds.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char hashmi_2018[] =
    "Hashmi, Chakraborty, Bayatpour & Panda, Designing efficient shared address space reduction "
    "collectives for multi-/many-cores, 2018";

/* A barrier: no rank continues before all ranks have reached it. */
static void barrier(plan_emitter_t *e) {
  algo_signal_peers(e);
  algo_wait_peers(e);
}

static bool is_root(const plan_emitter_t *e) {
  return e->rank == e->plan->shape.root;
}

/* The end of a call in which only the root's memory is accessed by others: the root waits until all
 * peers are done. */
static void release_root(plan_emitter_t *e) {
  if (is_root(e)) {
    algo_wait_peers(e);
  } else {
    plan_emit_signal(e, 0, e->plan->shape.root);
  }
}

static void outline_pull_blocks(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_READ, 1, 0);
}

static void outline_push_blocks(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, 1, 0);
}

/* One share of the vector per rank. */
static void outline_pull_shares(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_READ, plan->shape.size, 0);
}

static void outline_push_shares(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, plan->shape.size, 0);
}

/* Copies `src` to the OUTPUT chunk of every rank. It is written as a reduction of one operand
 * followed by copies of its result, so that the engine loads it once and writes all destinations in
 * one pass. */
static void copy_to_all(plan_emitter_t *e, plan_span_t src, int32_t chunk) {
  plan_span_t own = plan_output(e, chunk, 1);
  bool is_in_place = e->program->in_place && src.rank == e->rank;
  if (!is_in_place) plan_emit_reduce(e, 0, own, &src, 1);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_emit_copy(e, 0, plan_peer_output(algo_peer(e, i), chunk, 1), own);
  }
}

/* ---- allreduce: oneshot ----------------------------------------------------------------------
 * Every rank reduces the whole vector itself: one round, p n loads per rank. In place, the result
 * stays in SCRATCH until the peers have read this rank's operand. */

static void oneshot_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_READ, 1, 1);
}

static void oneshot_build(plan_emitter_t *e) {
  bool uses_scratch = e->program->in_place;
  plan_span_t result = uses_scratch ? plan_scratch(e, 0, 1) : plan_output(e, 0, 1);
  algo_reduce_all(e, result, PLAN_INPUT, PLAN_INPUT, 0);
  barrier(e);
  if (uses_scratch) plan_emit_copy(e, 0, plan_output(e, 0, 1), result);
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
 * Rank r reduces share r of all operands (n loads, n/p stores). Then the shares are exchanged: by
 * stores of the rank that reduced the share (push, one barrier) or by loads of the ranks that need
 * it (pull, two). The copies of push follow the reduction directly, so that the engine writes all
 * destinations in one pass. Only rank r reads share r of any INPUT, and no rank writes share r of
 * an OUTPUT before r has read it, so both work in place. */

static void push_build(plan_emitter_t *e) {
  int32_t rank = e->rank;
  algo_reduce_all(e, plan_output(e, rank, 1), PLAN_INPUT, PLAN_INPUT, rank);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_emit_copy(e, 0, plan_peer_output(algo_peer(e, i), rank, 1), plan_output(e, rank, 1));
  }
  barrier(e);
}

const algo_t algo_allreduce_twophase_push = {
    .name = "twophase_push",
    .collective = COLL_ALLREDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_push_shares,
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
    .outline = outline_pull_shares,
    .build = pull_build,
};

/* ---- reduce ----------------------------------------------------------------------------------
 * Rank r reduces share r of all operands directly into the root's OUTPUT: one round, n loads per
 * rank, so all ranks do equal work. */

static void reduce_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  algo_reduce_all(e, plan_peer_output(root, e->rank, 1), PLAN_INPUT, PLAN_INPUT, e->rank);
  barrier(e);
}

const algo_t algo_reduce_mapped = {
    .name = "mapped",
    .collective = COLL_REDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_push_shares,
    .build = reduce_build,
};

/* Every rank reduces its share into its SCRATCH, from which the root copies the shares: nothing is
 * stored into a peer's memory. A rank is released once the root has its share, when all ranks have
 * read their shares of its INPUT. */
static void reduce_pull_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_READ, plan->shape.size, plan->shape.size);
}

static void reduce_pull_build(plan_emitter_t *e) {
  int32_t rank = e->rank, root = e->plan->shape.root;
  plan_span_t share = is_root(e) ? plan_output(e, rank, 1) : plan_scratch(e, rank, 1);
  algo_reduce_all(e, share, PLAN_INPUT, PLAN_INPUT, rank);
  if (!is_root(e)) {
    plan_emit_signal(e, 0, root);
    plan_emit_wait(e, 0, root);
    return;
  }
  algo_wait_peers(e);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_copy(e, 0, plan_output(e, peer, 1), plan_peer_scratch(peer, peer, 1));
    plan_emit_signal(e, 0, peer);
  }
}

const algo_t algo_reduce_mapped_pull = {
    .name = "mapped_pull",
    .collective = COLL_REDUCE,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = reduce_pull_outline,
    .build = reduce_pull_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * Every rank reduces its own block of all operands: one round, p blocks of loads per rank. In place
 * it writes the block that no peer reads. */

static void reduce_scatter_build(plan_emitter_t *e) {
  algo_reduce_all(e, plan_output(e, 0, 1), PLAN_INPUT, PLAN_INPUT, e->rank);
  barrier(e);
}

const algo_t algo_reduce_scatter_mapped = {
    .name = "mapped",
    .collective = COLL_REDUCE_SCATTER,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_pull_blocks,
    .build = reduce_scatter_build,
};

const algo_t algo_reduce_scatterv_mapped = {
    .name = "mapped",
    .collective = COLL_REDUCE_SCATTERV,
    .paper = hashmi_2018,
    .order = PLAN_ORDER_EXACT,
    .outline = outline_pull_blocks,
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
    .outline = outline_pull_blocks,
    .build = allgather_build,
};

const algo_t algo_allgatherv_mapped = {
    .name = "mapped",
    .collective = COLL_ALLGATHERV,
    .paper = hashmi_2018,
    .outline = outline_pull_blocks,
    .build = allgather_build,
};

/* Every rank stores its block in every OUTPUT: as many stores as in the pull variant, but it loads
 * only its own block. */
static void allgather_push_build(plan_emitter_t *e) {
  copy_to_all(e, plan_input(e, 0, 1), e->rank);
  barrier(e);
}

const algo_t algo_allgather_mapped_push = {
    .name = "mapped_push",
    .collective = COLL_ALLGATHER,
    .paper = hashmi_2018,
    .outline = outline_push_blocks,
    .build = allgather_push_build,
};

/* ---- broadcast, scatter, gather --------------------------------------------------------------
 * All peers work at the same time: they load from the root's INPUT or store to its OUTPUT, and the
 * root waits for them. One round, one block per peer. */

static void broadcast_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (is_root(e)) {
    algo_copy_through(e);
  } else {
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_peer_input(root, 0, 1));
  }
  release_root(e);
}

const algo_t algo_broadcast_mapped = {
    .name = "mapped",
    .collective = COLL_BROADCAST,
    .paper = hashmi_2018,
    .outline = outline_pull_blocks,
    .build = broadcast_build,
};

/* Every rank copies one share to all OUTPUTs: each share is loaded from the root's memory only
 * once, and the root does as much work as its peers. */
static void broadcast_shares_build(plan_emitter_t *e) {
  copy_to_all(e, plan_peer_input(e->plan->shape.root, e->rank, 1), e->rank);
  barrier(e);
}

const algo_t algo_broadcast_mapped_shares = {
    .name = "mapped_shares",
    .collective = COLL_BROADCAST,
    .paper = hashmi_2018,
    .outline = outline_push_shares,
    .build = broadcast_shares_build,
};

/* The root stores the vector in every OUTPUT. Only OUTPUT is accessed by others, which all ranks
 * have, so on GPUs a window of it is enough. */
static void broadcast_push_build(plan_emitter_t *e) {
  if (is_root(e)) {
    copy_to_all(e, plan_input(e, 0, 1), 0);
    algo_signal_peers(e);
  } else {
    plan_emit_wait(e, 0, e->plan->shape.root);
  }
}

const algo_t algo_broadcast_mapped_push = {
    .name = "mapped_push",
    .collective = COLL_BROADCAST,
    .paper = hashmi_2018,
    .outline = outline_push_blocks,
    .build = broadcast_push_build,
};

/* The same in two rounds: the root stores one share in the OUTPUT of each peer, which stores it in
 * the OUTPUTs of the other peers. So the root stores the vector once, and each peer about as much.
 */
static void outline_push_peers_shares(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_USER, plan->shape.size - 1, 0);
}

static void push_shares(plan_emitter_t *e) {
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_span_t share = plan_input(e, i - 1, 1);
    plan_emit_copy(e, 0, plan_peer_output(algo_peer(e, i), i - 1, 1), share);
    plan_emit_signal(e, 0, algo_peer(e, i));
  }
  algo_copy_through(e);
}

static void pass_share_on(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size, root = e->plan->shape.root;
  int32_t share = (e->rank - root + size) % size - 1;
  plan_emit_wait(e, 0, root);
  for (int32_t i = 1; i < size; i++) {
    int32_t peer = algo_peer(e, i);
    if (peer == root) continue;
    plan_emit_copy(e, 0, plan_peer_output(peer, share, 1), plan_output(e, share, 1));
  }
  for (int32_t i = 1; i < size; i++) {
    if (algo_peer(e, i) != root) plan_emit_signal(e, 0, algo_peer(e, i));
  }
  for (int32_t i = 1; i < size; i++) {
    if (algo_peer(e, i) != root) plan_emit_wait(e, 0, algo_peer(e, i));
  }
}

static void broadcast_push_shares_build(plan_emitter_t *e) {
  if (is_root(e)) {
    push_shares(e);
  } else {
    pass_share_on(e);
  }
}

const algo_t algo_broadcast_mapped_push_shares = {
    .name = "mapped_push_shares",
    .collective = COLL_BROADCAST,
    .paper = hashmi_2018,
    .outline = outline_push_peers_shares,
    .build = broadcast_push_shares_build,
};

static void scatter_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (is_root(e)) {
    plan_emit_input_to_output(e, 0, 0, root, 1);
  } else {
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_peer_input(root, e->rank, 1));
  }
  release_root(e);
}

const algo_t algo_scatter_mapped = {
    .name = "mapped",
    .collective = COLL_SCATTER,
    .paper = hashmi_2018,
    .outline = outline_pull_blocks,
    .build = scatter_build,
};

static void gather_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (is_root(e)) {
    plan_emit_input_to_output(e, 0, root, 0, 1);
  } else {
    plan_emit_copy(e, 0, plan_peer_output(root, e->rank, 1), plan_input(e, 0, 1));
  }
  release_root(e);
}

const algo_t algo_gather_mapped = {
    .name = "mapped",
    .collective = COLL_GATHER,
    .paper = hashmi_2018,
    .outline = outline_push_blocks,
    .build = gather_build,
};

/* The root loads all blocks and then releases the peers. */
static void gather_pull_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (!is_root(e)) {
    plan_emit_wait(e, 0, root);
    return;
  }
  plan_emit_input_to_output(e, 0, root, 0, 1);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_copy(e, 0, plan_output(e, peer, 1), plan_peer_input(peer, 0, 1));
  }
  algo_signal_peers(e);
}

const algo_t algo_gather_mapped_pull = {
    .name = "mapped_pull",
    .collective = COLL_GATHER,
    .paper = hashmi_2018,
    .outline = outline_pull_blocks,
    .build = gather_pull_build,
};

/* ---- alltoall --------------------------------------------------------------------------------
 * Every rank loads its block from every peer: one round, p - 1 blocks per rank. In place, the
 * blocks stay in SCRATCH until the peers have loaded theirs. */

static void alltoall_outline(plan_t *plan) {
  algo_outline_mapped(plan, PLAN_REACH_READ, 1, plan->shape.size);
}

static void alltoall_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  plan_buffer_t received = e->program->in_place ? PLAN_SCRATCH : PLAN_OUTPUT;
  plan_emit_input_to_output(e, 0, e->rank, e->rank, 1);
  for (int32_t i = 1; i < size; i++) {
    int32_t peer = algo_peer(e, i);
    plan_emit_copy(e, 0, algo_own(e, received, peer, 1), plan_peer_input(peer, e->rank, 1));
    plan_emit_signal(e, 0, peer);
  }
  algo_wait_peers(e);
  if (received == PLAN_OUTPUT) return;
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
