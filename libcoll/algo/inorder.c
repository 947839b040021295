/*
 * Reduction by a binary tree that is the canonical expression itself: each of its p - 1 operations
 * is done by another rank, the last one by the root. So a rank sends at most two vectors and does
 * at most one reduction, and a row of passes goes at that speed, however many ranks there are; one
 * pass takes ceil(log2 p) rounds. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

/* The first rank of the right half. */
static int32_t cut_of(algo_run_t run) {
  return run.first + algo_power_below(run.count - 1);
}

static algo_run_t left_of(algo_run_t run) {
  return (algo_run_t){run.first, cut_of(run) - run.first};
}

static algo_run_t right_of(algo_run_t run) {
  int32_t cut = cut_of(run);
  return (algo_run_t){cut, run.first + run.count - cut};
}

/* The whole run is cut at `top`. Its operation is the root's; that cut at the root is the rank
 * top's in exchange; any other is that of the rank where it is cut. */
static int32_t exchanged(const plan_emitter_t *e, int32_t cut) {
  int32_t root = e->plan->shape.root, top = cut_of((algo_run_t){0, e->plan->shape.size});
  if (cut == top) return root;
  return cut == root ? top : cut;
}

/* The rank that has what the run comes to. */
static int32_t owner(const plan_emitter_t *e, algo_run_t run) {
  return run.count == 1 ? run.first : exchanged(e, cut_of(run));
}

/* The run that is cut at `cut`, or the run of that rank alone; and the run that it is a half of,
 * count 0 for the whole. */
static algo_run_t find_run(const plan_emitter_t *e, int32_t cut, bool alone, algo_run_t *parent) {
  algo_run_t run = {0, e->plan->shape.size};
  *parent = (algo_run_t){0, 0};
  while (run.count > 1 && (alone || cut_of(run) != cut)) {
    *parent = run;
    run = cut < cut_of(run) ? left_of(run) : right_of(run);
  }
  return run;
}

/* Brings one half's result into the next chunk of SCRATCH, unless it is this rank's own operand. */
static void take_in(plan_emitter_t *e, algo_run_t half, plan_span_t *operand, int32_t *arrived) {
  int32_t from = owner(e, half);
  *operand = plan_input(e, 0, 1);
  if (from == e->rank) return;
  *operand = plan_scratch(e, (*arrived)++, 1);
  plan_emit_recv(e, 0, from, *operand);
}

/* Single operands are sent before results, and so they are taken in first. */
static void build(plan_emitter_t *e) {
  algo_run_t parent;
  find_run(e, e->rank, true, &parent);
  if (owner(e, parent) != e->rank) plan_emit_send(e, 0, owner(e, parent), plan_input(e, 0, 1));
  int32_t cut = exchanged(e, e->rank), arrived = 0; /* an exchange is its own inverse */
  if (cut == 0) return;
  algo_run_t run = find_run(e, cut, false, &parent), left = left_of(run), right = right_of(run);
  plan_span_t sources[2];
  if (right.count == 1) take_in(e, right, &sources[1], &arrived);
  take_in(e, left, &sources[0], &arrived);
  if (right.count > 1) take_in(e, right, &sources[1], &arrived);
  plan_span_t result = parent.count > 0 ? plan_scratch(e, arrived, 1) : plan_output(e, 0, 1);
  plan_emit_reduce(e, 0, result, sources, 2);
  if (parent.count > 0) plan_emit_send(e, 0, owner(e, parent), result);
}

/* Room for two arrivals and a result, where a rank that is not the root has all of them. */
static void outline(plan_t *plan) {
  int32_t size = plan->shape.size, chunks = 3;
  if (plan->shape.root == 0 && size <= 4) chunks = 2;
  algo_outline_messages(plan, 1, size == 2 ? 1 : chunks, 1);
}

const algo_t algo_reduce_inorder = {
    .name = "inorder",
    .collective = COLL_REDUCE,
    .paper =
        "Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and "
        "scan, 2009",
    .order = PLAN_ORDER_CANONICAL,
    .outline = outline,
    .build = build,
};
