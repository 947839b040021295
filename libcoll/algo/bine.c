/*
 * Bine (binomial negabinary) trees: binomial trees in which a child is at a negabinary distance
 * (negabinary.h) from its parent, on alternating sides, farthest first. Its path is about a third
 * shorter than in a binomial tree, so fewer messages leave a group of neighbouring ranks. Subtrees
 * are runs of positions, counted from the root. ceil(log2 p) rounds for any rank count: where p is
 * not a power of two, extra positions are leaves below their neighbours (algo_fold_t).
 */
#include "algo/list.h"
#include "algo/negabinary.h"

static const char de_sensi_2025[] =
    "De Sensi et al., Bine trees: Enhancing collective operations by optimizing communication "
    "locality, 2025";

/* ---- the tree --------------------------------------------------------------------------------*/

typedef struct bine {
  algo_fold_t fold;
  int32_t position, member, parent; /* parent: position; -1 at the root */
  int steps;                        /* the children are the peers of the steps steps-1, …, 0 */
  bool is_extra; /* a leaf; else `extra` is the position of this member's extra, or -1 */
  int32_t extra;
  algo_run_t subtree; /* positions, as integers that are not taken modulo p */
} bine_t;

static bool contains(algo_run_t members, int32_t member, int32_t power) {
  return algo_mod(member - members.first, power) < members.count;
}

/* Descends from the root to the member. */
static bine_t bine_of(const plan_emitter_t *e) {
  bine_t tree = {.fold = algo_fold_of(e->plan->shape.size),
                 .position = algo_tree_position(e),
                 .parent = -1,
                 .extra = -1};
  int32_t power = tree.fold.power, holder = 0;
  tree.member = algo_fold_member(&tree.fold, tree.position);
  tree.is_extra = algo_fold_is_extra(&tree.fold, tree.position);
  tree.steps = tree.fold.steps;
  while (holder != tree.member) {
    int32_t child = algo_mod(algo_negabinary_peer(holder, --tree.steps), power);
    if (!contains(algo_negabinary_subtree(child, tree.steps), tree.member, power)) continue;
    tree.parent = algo_fold_position(&tree.fold, holder);
    holder = child;
  }
  algo_run_t members = algo_negabinary_subtree(tree.member, tree.steps);
  tree.subtree = algo_fold_positions(&tree.fold, members.first, members.count);
  if (tree.is_extra) tree.parent = tree.position - 1;
  if (!tree.is_extra && tree.member < tree.fold.extras) tree.extra = tree.position + 1;
  return tree;
}

/* The positions of a child's subtree, and its rank. */
static algo_run_t child_subtree(const bine_t *tree, int step) {
  algo_run_t members = algo_negabinary_subtree(algo_negabinary_peer(tree->member, step), step);
  return algo_fold_positions(&tree->fold, members.first, members.count);
}

static int32_t child_rank(const plan_emitter_t *e, const bine_t *tree, int step) {
  int32_t member = algo_mod(algo_negabinary_peer(tree->member, step), tree->fold.power);
  return algo_tree_rank(e, algo_fold_position(&tree->fold, member));
}

/* ---- broadcast and reduce --------------------------------------------------------------------
 * ceil(log2 p) rounds, p - 1 messages in total, each the whole vector. */

static void broadcast_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

static void broadcast_build(plan_emitter_t *e) {
  bine_t tree = bine_of(e);
  plan_span_t held = algo_own(e, tree.parent < 0 ? PLAN_INPUT : PLAN_OUTPUT, 0, 1);
  if (tree.parent >= 0) plan_emit_recv(e, 0, algo_tree_rank(e, tree.parent), held);
  if (tree.is_extra) return;
  for (int step = tree.steps - 1; step >= 0; step--) {
    plan_emit_send(e, 0, child_rank(e, &tree, step), held);
  }
  if (tree.extra >= 0) plan_emit_send(e, 0, algo_tree_rank(e, tree.extra), held);
  if (tree.parent < 0) algo_copy_through(e);
}

const algo_t algo_broadcast_bine = {
    .name = "bine",
    .collective = COLL_BROADCAST,
    .paper = de_sensi_2025,
    .outline = broadcast_outline,
    .build = broadcast_build,
};

/* A rank that is not the root has no OUTPUT: its partial result is SCRATCH chunk 0. */
static void reduce_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 2, 1);
}

static void reduce_build(plan_emitter_t *e) {
  bine_t tree = bine_of(e);
  plan_span_t held = plan_input(e, 0, 1), arrived = plan_scratch(e, 1, 1);
  plan_span_t sum = algo_own(e, tree.parent < 0 ? PLAN_OUTPUT : PLAN_SCRATCH, 0, 1);
  for (int step = -1; step < tree.steps && !tree.is_extra; step++) {
    if (step < 0 && tree.extra < 0) continue;
    int32_t peer = step < 0 ? algo_tree_rank(e, tree.extra) : child_rank(e, &tree, step);
    plan_emit_recv(e, 0, peer, arrived);
    algo_reduce_pair(e, peer, sum, held, arrived);
    held = sum;
  }
  if (tree.parent >= 0) plan_emit_send(e, 0, algo_tree_rank(e, tree.parent), held);
}

const algo_t algo_reduce_bine = {
    .name = "bine",
    .collective = COLL_REDUCE,
    .paper = de_sensi_2025,
    .outline = reduce_outline,
    .build = reduce_build,
};

/* ---- gather and scatter ----------------------------------------------------------------------
 * ceil(log2 p) rounds; a position moves the blocks of its whole subtree in one message, or in two
 * where they wrap around the end of the root's buffer. Inner positions hold them in SCRATCH, in the
 * order of positions. */

/* The widest subtree below the root is one of the root's children's. */
static void subtree_outline(plan_t *plan) {
  bine_t root = {.fold = algo_fold_of(plan->shape.size)};
  int32_t widest = 0;
  for (int step = 0; step < root.fold.steps; step++) {
    int32_t width = child_subtree(&root, step).count;
    if (width > widest) widest = width;
  }
  algo_outline_messages(plan, 1, widest > 1 ? widest : 0, widest);
}

/* The place of a position's block in SCRATCH. */
static int32_t place_of(const bine_t *tree, int32_t position) {
  return position - tree->subtree.first;
}

/* Sends or receives the blocks of a run of positions. At the root they are in `buffer`, indexed by
 * rank, elsewhere in SCRATCH. */
static void move_blocks(plan_emitter_t *e, const bine_t *tree, int32_t peer, algo_run_t positions,
                        plan_buffer_t buffer,
                        int32_t (*move)(plan_emitter_t *, int, int32_t, plan_span_t)) {
  int32_t moved = 0;
  algo_run_t runs[2];
  int count =
      algo_wrap(e->plan->shape.root + positions.first, positions.count, e->plan->shape.size, runs);
  for (int i = 0; i < count; i++) {
    int32_t place = place_of(tree, positions.first) + moved;
    plan_span_t span = tree->parent < 0 ? algo_own(e, buffer, runs[i].first, runs[i].count)
                                        : plan_scratch(e, place, runs[i].count);
    move(e, 0, peer, span);
    moved += runs[i].count;
  }
}

static void gather_build(plan_emitter_t *e) {
  bine_t tree = bine_of(e);
  int32_t parent = tree.parent < 0 ? -1 : algo_tree_rank(e, tree.parent);
  if (tree.is_extra || (parent >= 0 && tree.subtree.count == 1)) {
    plan_emit_send(e, 0, parent, plan_input(e, 0, 1));
    return;
  }
  if (parent < 0) {
    plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  } else {
    plan_emit_copy(e, 0, plan_scratch(e, place_of(&tree, tree.position), 1), plan_input(e, 0, 1));
  }
  if (tree.extra >= 0) {
    move_blocks(e, &tree, algo_tree_rank(e, tree.extra), (algo_run_t){tree.extra, 1}, PLAN_OUTPUT,
                plan_emit_recv);
  }
  for (int step = 0; step < tree.steps; step++) {
    move_blocks(e, &tree, child_rank(e, &tree, step), child_subtree(&tree, step), PLAN_OUTPUT,
                plan_emit_recv);
  }
  if (parent >= 0) move_blocks(e, &tree, parent, tree.subtree, PLAN_OUTPUT, plan_emit_send);
}

const algo_t algo_gather_bine = {
    .name = "bine",
    .collective = COLL_GATHER,
    .paper = de_sensi_2025,
    .outline = subtree_outline,
    .build = gather_build,
};

static void scatter_build(plan_emitter_t *e) {
  bine_t tree = bine_of(e);
  int32_t parent = tree.parent < 0 ? -1 : algo_tree_rank(e, tree.parent);
  if (tree.is_extra || (parent >= 0 && tree.subtree.count == 1)) {
    plan_emit_recv(e, 0, parent, plan_output(e, 0, 1));
    return;
  }
  if (parent >= 0) move_blocks(e, &tree, parent, tree.subtree, PLAN_INPUT, plan_emit_recv);
  for (int step = tree.steps - 1; step >= 0; step--) {
    move_blocks(e, &tree, child_rank(e, &tree, step), child_subtree(&tree, step), PLAN_INPUT,
                plan_emit_send);
  }
  if (tree.extra >= 0) {
    move_blocks(e, &tree, algo_tree_rank(e, tree.extra), (algo_run_t){tree.extra, 1}, PLAN_INPUT,
                plan_emit_send);
  }
  if (parent < 0) {
    plan_emit_input_to_output(e, 0, 0, e->rank, 1);
  } else {
    plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_scratch(e, place_of(&tree, tree.position), 1));
  }
}

const algo_t algo_scatter_bine = {
    .name = "bine",
    .collective = COLL_SCATTER,
    .paper = de_sensi_2025,
    .outline = subtree_outline,
    .build = scatter_build,
};
