/*
 * Double binary trees: each half of the vector has a binary tree and a lane of its own. A rank that
 * is an inner node of one tree is a leaf of the other, so every rank sends at most one vector down
 * and one up, and both directions of its link are used. The root is outside of both trees and
 * exchanges one half with the top of each. The n = p - 1 other positions have a role 1..n in each
 * tree: roles with the lowest set bit b have children b/2 below and above, so odd roles are leaves.
 * The second tree mirrors the roles if n is even and shifts them by one if n is odd. Any rank
 * count.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char sanders_2009[] =
    "Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, "
    "2009; in NCCL: double binary trees";

enum { LANES = 2 };

/* ---- the trees -------------------------------------------------------------------------------*/

/* The neighbours of a rank in the tree of a lane, as ranks. */
typedef struct node {
  int32_t parent; /* -1: the root */
  int32_t children[2], count;
} node_t;

/* The role of a position > 0, and the position of a role; the root has role and position 0. */
static int32_t role_of(int32_t position, int32_t roles, int lane) {
  if (lane == 0 || position == 0) return position;
  return roles % 2 == 0 ? roles + 1 - position : position % roles + 1;
}

static int32_t position_of(int32_t role, int32_t roles, int lane) {
  if (lane == 0 || role == 0) return role;
  if (roles % 2 == 0) return roles + 1 - role;
  return role == 1 ? roles : role - 1;
}

/* The rank of a role. */
static int32_t rank_of(const plan_emitter_t *e, int32_t role, int lane) {
  return algo_tree_rank(e, position_of(role, e->plan->shape.size - 1, lane));
}

static node_t node_of(const plan_emitter_t *e, int lane) {
  int32_t roles = e->plan->shape.size - 1, role = role_of(algo_tree_position(e), roles, lane);
  if (role == 0) {
    return (node_t){
        .parent = -1, .children = {rank_of(e, algo_power_below(roles), lane)}, .count = 1};
  }
  int32_t bit = role & -role, above = (role - bit) | 2 * bit;
  node_t node = {.parent = rank_of(e, above <= roles ? above : role - bit, lane)};
  if (bit == 1) return node;
  node.children[node.count++] = rank_of(e, role - bit / 2, lane);
  for (bit /= 2; bit >= 1 && role + bit > roles;) bit /= 2;
  if (bit >= 1) node.children[node.count++] = rank_of(e, role + bit, lane);
  return node;
}

/* ---- one chunk up or down --------------------------------------------------------------------
 * Received operands are in SCRATCH, from the second child one block after the first. */

static int32_t scratch_of(const plan_shape_t *shape, int32_t parts) {
  return shape->size >= 4 ? 2 * parts : parts; /* no node has two children below four ranks */
}

/* Reduces the chunk of the children and this rank, with the result in `sum`, and sends it up. */
static void reduce_up(plan_emitter_t *e, int lane, int32_t chunk, plan_span_t sum) {
  node_t node = node_of(e, lane);
  plan_span_t held = plan_input(e, chunk, 1), sources[3];
  if (node.count > 0) {
    for (int32_t i = 0; i < node.count; i++) {
      sources[2 * i] = plan_scratch(e, chunk + i * e->plan->parts, 1);
      plan_emit_recv(e, lane, node.children[i], sources[2 * i]);
    }
    sources[1] = held;
    plan_emit_reduce(e, lane, sum, sources, node.count + 1);
    held = sum;
  }
  if (node.parent >= 0) plan_emit_send(e, lane, node.parent, held);
}

/* Sends the root's chunk of `source` down to every OUTPUT. */
static void broadcast_down(plan_emitter_t *e, int lane, int32_t chunk, plan_buffer_t source) {
  node_t node = node_of(e, lane);
  plan_span_t held = algo_own(e, node.parent < 0 ? source : PLAN_OUTPUT, chunk, 1);
  if (node.parent >= 0) plan_emit_recv(e, lane, node.parent, held);
  for (int32_t i = 0; i < node.count; i++) plan_emit_send(e, lane, node.children[i], held);
}

static void outline(plan_t *plan, int32_t parts, int32_t scratch_chunks) {
  algo_outline_messages(plan, parts, scratch_chunks, 1);
  plan->lanes = LANES;
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Up to rank 0 and down again. Each half moves in a few pieces, so that the levels of a tree work
 * at the same time within one pass. At most 2n volume per rank; the height of a tree is
 * floor(log2(p - 1)) + 1, the edge to the root included. */

enum { PIECES = 4 };

static void allreduce_outline(plan_t *plan) {
  int32_t parts = LANES * PIECES;
  outline(plan, parts, scratch_of(&plan->shape, parts));
}

static void allreduce_build(plan_emitter_t *e) {
  for (int lane = 0; lane < LANES; lane++) {
    int32_t first = lane * PIECES;
    for (int32_t chunk = first; chunk < first + PIECES; chunk++) {
      reduce_up(e, lane, chunk, plan_output(e, chunk, 1));
    }
    for (int32_t chunk = first; chunk < first + PIECES; chunk++) {
      broadcast_down(e, lane, chunk, PLAN_OUTPUT);
    }
  }
}

const algo_t algo_allreduce_double_tree = {
    .name = "double_tree",
    .collective = COLL_ALLREDUCE,
    .paper = sanders_2009,
    .two_way = true,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- broadcast and reduce --------------------------------------------------------------------
 * One chunk per tree. Ranks work on different passes at the same time. At most n volume per rank:
 * two halves down (or one up) as an inner node of one tree, and none down (or one up) as a leaf of
 * the other. */

static void broadcast_outline(plan_t *plan) {
  outline(plan, LANES, 0);
}

static void broadcast_build(plan_emitter_t *e) {
  for (int lane = 0; lane < LANES; lane++) {
    broadcast_down(e, lane, lane, PLAN_INPUT);
    if (e->rank == e->plan->shape.root) plan_emit_input_to_output(e, lane, lane, lane, 1);
  }
}

const algo_t algo_broadcast_double_tree = {
    .name = "double_tree",
    .collective = COLL_BROADCAST,
    .paper = sanders_2009,
    .two_way = true,
    .outline = broadcast_outline,
    .build = broadcast_build,
};

static void reduce_outline(plan_t *plan) {
  outline(plan, LANES, scratch_of(&plan->shape, LANES));
}

static void reduce_build(plan_emitter_t *e) {
  plan_buffer_t sum = e->rank == e->plan->shape.root ? PLAN_OUTPUT : PLAN_SCRATCH;
  for (int lane = 0; lane < LANES; lane++) reduce_up(e, lane, lane, algo_own(e, sum, lane, 1));
}

const algo_t algo_reduce_double_tree = {
    .name = "double_tree",
    .collective = COLL_REDUCE,
    .paper = sanders_2009,
    .two_way = true,
    .outline = reduce_outline,
    .build = reduce_build,
};
