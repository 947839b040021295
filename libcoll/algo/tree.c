/*
 * Binomial trees. The parent of position v > 0 (a rank counted from the root, modulo p) is v with
 * its lowest set bit cleared; its subtree is the run of positions from v that have v's bits above
 * and including that one. Any rank count: the tree is that of the next power of two without the
 * missing positions. ceil(log2 p) rounds in each direction. Floating-point reductions depend on
 * their order, so reduction trees are not rotated to the root: they are trees over the rank
 * numbers, in which the root takes the place of the first rank of every run that contains it.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char chan_2007[] =
    "Chan, Heimlich, Purkayastha & van de Geijn, Collective communication: theory, practice, and "
    "experience, 2007";

/* ---- the tree --------------------------------------------------------------------------------*/

int32_t algo_tree_position(const plan_emitter_t *e) {
  return algo_mod(e->rank - e->plan->shape.root, e->plan->shape.size);
}

int32_t algo_tree_rank(const plan_emitter_t *e, int32_t position) {
  return algo_mod(position + e->plan->shape.root, e->plan->shape.size);
}

int32_t algo_tree_parent(int32_t position) {
  return position & (position - 1);
}

int32_t algo_tree_span(int32_t position, int32_t size) {
  int32_t whole = position & -position;
  if (position == 0) return size;
  return whole < size - position ? whole : size - position;
}

int32_t algo_tree_distance(int32_t position, int32_t size) {
  int32_t span = algo_tree_span(position, size);
  if (span == 1) return 0;
  return algo_power_below(span - 1);
}

int32_t algo_tree_widest(int32_t size) {
  int32_t widest = 0;
  for (int32_t child = 1; child < size; child *= 2) {
    int32_t span = algo_tree_span(child, size);
    if (span > widest) widest = span;
  }
  return widest;
}

/* ---- one vector up or down -------------------------------------------------------------------*/

/* The rank that gets the result of the run: the root, if the run contains it, else the first
 * rank. */
static int32_t holder(const plan_emitter_t *e, algo_run_t run) {
  int32_t root = e->plan->shape.root;
  return root >= run.first && root < run.first + run.count ? root : run.first;
}

/* The spans that a rank reduces with. */
typedef struct reduction {
  plan_span_t held, sum, arrived; /* result so far; destination of the next result; received
                                     operand */
} reduction_t;

/* Reduces the operands of the ranks of the run, which includes this one, by the canonical
 * expression, recursively: the holder of one half sends to the holder of the other. So the number
 * of messages is the same for every root, and with root 0 the tree is the binomial one. Returns
 * whether this rank holds the result. */
static bool reduce_run(plan_emitter_t *e, algo_run_t run, reduction_t *at) {
  if (run.count == 1) return true;
  int32_t cut = algo_power_below(run.count - 1);
  algo_run_t left = {run.first, cut}, right = {run.first + cut, run.count - cut};
  bool in_left = e->rank < right.first;
  if (!reduce_run(e, in_left ? left : right, at)) return false;
  int32_t peer = holder(e, in_left ? right : left);
  if (e->rank != holder(e, run)) {
    plan_emit_send(e, 0, peer, at->held);
    return false;
  }
  plan_emit_recv(e, 0, peer, at->arrived);
  algo_reduce_pair(e, peer, at->sum, at->held, at->arrived);
  at->held = at->sum;
  return true;
}

/* Reduces to the root. The partial result is in chunk 0 of `partial`, received operands in SCRATCH
 * chunk `received`. */
static void reduce_up(plan_emitter_t *e, plan_buffer_t partial, int32_t received) {
  reduce_run(e, (algo_run_t){0, e->plan->shape.size},
             &(reduction_t){.held = plan_input(e, 0, 1),
                            .sum = algo_own(e, partial, 0, 1),
                            .arrived = plan_scratch(e, received, 1)});
}

/* Sends the root's `source` chunk 0 down to every OUTPUT, farthest child first. */
static void broadcast_down(plan_emitter_t *e, plan_buffer_t source) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  plan_span_t held = algo_own(e, position == 0 ? source : PLAN_OUTPUT, 0, 1);
  if (position > 0) plan_emit_recv(e, 0, algo_tree_rank(e, algo_tree_parent(position)), held);
  for (int32_t distance = algo_tree_distance(position, size); distance >= 1; distance /= 2) {
    plan_emit_send(e, 0, algo_tree_rank(e, position + distance), held);
  }
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Reduce to rank 0, then broadcast: 2 ceil(log2 p) rounds, 2(p-1) messages in total, each the whole
 * vector. The fewest messages possible. */

static void allreduce_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

static void allreduce_build(plan_emitter_t *e) {
  reduce_up(e, PLAN_OUTPUT, 0);
  broadcast_down(e, PLAN_OUTPUT);
}

const algo_t algo_allreduce_tree = {
    .name = "tree",
    .collective = COLL_ALLREDUCE,
    .paper = chan_2007,
    .order = PLAN_ORDER_CANONICAL,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- broadcast and reduce --------------------------------------------------------------------
 * ceil(log2 p) rounds, p - 1 messages in total, each the whole vector. */

static void broadcast_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

static void broadcast_build(plan_emitter_t *e) {
  broadcast_down(e, PLAN_INPUT);
  if (e->rank == e->plan->shape.root) algo_copy_through(e);
}

const algo_t algo_broadcast_binomial = {
    .name = "binomial",
    .collective = COLL_BROADCAST,
    .paper = chan_2007,
    .outline = broadcast_outline,
    .build = broadcast_build,
};

/* A rank that is not the root has no OUTPUT: its partial result is SCRATCH chunk 0. */
static void reduce_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 2, 1);
}

static void reduce_build(plan_emitter_t *e) {
  reduce_up(e, e->rank == e->plan->shape.root ? PLAN_OUTPUT : PLAN_SCRATCH, 1);
}

const algo_t algo_reduce_binomial = {
    .name = "binomial",
    .collective = COLL_REDUCE,
    .paper = chan_2007,
    .order = PLAN_ORDER_CANONICAL,
    .outline = reduce_outline,
    .build = reduce_build,
};

/* ---- gather and scatter ----------------------------------------------------------------------
 * ceil(log2 p) rounds; a position moves the blocks of its whole subtree in one message, or in two
 * where they wrap around the end of the root's buffer. Inner positions hold them in SCRATCH, in the
 * order of positions. The root's volume is p - 1 blocks, the total (p/2) log2 p. */

static void subtree_outline(plan_t *plan) {
  int32_t widest = algo_tree_widest(plan->shape.size);
  algo_outline_messages(plan, 1, widest > 1 ? widest : 0, widest);
}

/* Sends or receives the blocks of `position` and its subtree. At the root they are in `buffer`,
 * indexed by rank, elsewhere in SCRATCH, indexed by position. This rank's position is `at`, the
 * peer's is `peer`. */
static void move_subtree(plan_emitter_t *e, int32_t at, int32_t peer, int32_t position,
                         plan_buffer_t buffer,
                         int32_t (*move)(plan_emitter_t *, int, int32_t, plan_span_t)) {
  int32_t size = e->plan->shape.size, moved = 0;
  algo_run_t runs[2];
  int count = algo_wrap(algo_tree_rank(e, position), algo_tree_span(position, size), size, runs);
  for (int i = 0; i < count; i++) {
    plan_span_t span = at == 0 ? algo_own(e, buffer, runs[i].first, runs[i].count)
                               : plan_scratch(e, position - at + moved, runs[i].count);
    move(e, 0, algo_tree_rank(e, peer), span);
    moved += runs[i].count;
  }
}

static void gather_build(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  int32_t farthest = algo_tree_distance(position, size), parent = algo_tree_parent(position);
  if (position == 0) {
    plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  } else if (farthest == 0) {
    plan_emit_send(e, 0, algo_tree_rank(e, parent), plan_input(e, 0, 1));
    return;
  } else {
    plan_emit_copy(e, 0, plan_scratch(e, 0, 1), plan_input(e, 0, 1));
  }
  for (int32_t distance = 1; distance <= farthest; distance *= 2) {
    int32_t child = position + distance;
    move_subtree(e, position, child, child, PLAN_OUTPUT, plan_emit_recv);
  }
  if (position > 0) move_subtree(e, position, parent, position, PLAN_OUTPUT, plan_emit_send);
}

const algo_t algo_gather_binomial = {
    .name = "binomial",
    .collective = COLL_GATHER,
    .paper = chan_2007,
    .outline = subtree_outline,
    .build = gather_build,
};

static void scatter_build(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  int32_t farthest = algo_tree_distance(position, size), parent = algo_tree_parent(position);
  if (position > 0 && farthest == 0) {
    plan_emit_recv(e, 0, algo_tree_rank(e, parent), plan_output(e, 0, 1));
    return;
  }
  if (position > 0) move_subtree(e, position, parent, position, PLAN_INPUT, plan_emit_recv);
  for (int32_t distance = farthest; distance >= 1; distance /= 2) {
    int32_t child = position + distance;
    move_subtree(e, position, child, child, PLAN_INPUT, plan_emit_send);
  }
  if (position == 0) {
    plan_emit_input_to_output(e, 0, 0, e->rank, 1);
  } else {
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_scratch(e, 0, 1));
  }
}

const algo_t algo_scatter_binomial = {
    .name = "binomial",
    .collective = COLL_SCATTER,
    .paper = chan_2007,
    .outline = subtree_outline,
    .build = scatter_build,
};
